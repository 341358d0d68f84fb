// Package machine reconciles one Machine: bootstrap data, infrastructure and Node; in a deletion also the drain and the Node's deletion.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager. A [Reconciler] runs an ordered list of [Step]s over one [Scope]: take [Steps],
// change the list with [pass.InsertBefore], [pass.InsertAfter], [pass.Replace] and [pass.Remove], and set it in [Options].
// [Reconciler.ReconcileObject] makes one pass in a loop of your own. The CRD of the Machines must be installed before.
//
// Events cause passes ([Reconciler.AddToManager] names which do), and every pass runs all steps for a running Machine, or all steps of a
// deletion, until one of them ends the pass. A step before [StepDrain] also runs after the drain (State.DrainedNode is then the Node's
// UID). A
// one-time action must check whether it already ran: by the object that it created, or by a condition ([Scope.Assert]). No step behind
// [StepFinalizer] runs before the finalizer is stored, except those that decide about the Machine only (ObjectOnly of pass.Step): a step
// that creates objects belongs behind it. [New] rejects a list that is not safe, and says what to change. [Steps] documents what each step
// sets in the Scope.
//
// A Machine without a bootstrap object and an infrastructure object needs a list without [StepBootstrap] and [StepInfrastructure], and with
// one step before [StepNode] that creates or finds the instance and calls [Scope.SetProviderID]: the Machine's Node is the one with this
// spec.providerID. When the instance exists, the step also calls [Scope.SetInfrastructureReady], in every pass unless the type stores the
// value. A step before [StepDeleteInfrastructure], or in its place, deletes the instance. A step that is [pass.InRunning] does not run in a
// deletion: a type of your own must store the provider ID, and the Node with its UID. contract.CheckKind reports in a test what a type does
// not store, and [New] rejects a kind that does not store what the steps need. examples/embed is such an operator, with its own type,
// phases and conditions, in less than a hundred lines; its type stores the provider ID itself, and its own phases need neither call.
// Package fake runs it in a test without a cluster.
//
// # Where to read on
//
//   - [Policy]: the stages of a deletion, and the decisions that you can replace; [MachineDrainRules]: Cluster API's drain rules.
//   - [contract.ConditionReady] and its neighbors: the conditions of a Machine.
//   - [Ports]: Nodes in workload clusters (package noderef/workload), Clusters and MachineDeployments ([Rollouts]).
//   - [Metrics]: the metrics; [PolicyRules] and [NodePolicyRules]: the required RBAC rules.
//   - [PhaseStep]: the phases of other dialects. The default is Cluster API's.
//
// # How a pass works
//
// A pass reads the Machine and the objects that it references, decides in pure functions, acts on other objects, and writes the Machine
// at the end: metadata and spec first, then status on top of the server's answer. It does not write unchanged values. Patches are
// merge patches with metadata.uid; one that replaces a list also has the resourceVersion, so that a concurrent change is not
// lost: the pass is repeated. An intermediate status is written after [Options].StatusDelay, so that stages which follow each
// other at once cost one write; one that keeps changing waits for five times as long. A status that a step needs stored (a [Result] with
// Checkpoint) and the status of a ready Machine are written at once. While the API server or the client's rate limit is slow, StatusDelay
// grows up to a minute.
//
// # Guarantees
//
// An unread object is not absent: no stage of a deletion is skipped because a read failed, and before a deletion continues because an
// object is gone, the API server confirms it, once. The same applies to a recorded Node that the index does not have
// ([Workload].APIReader), and to the Machines of a control plane. A Node is drained and deleted only while its UID and provider ID
// are the recorded ones (only its UID for a Node that a step in place of [StepNode] has matched), and never while another Machine names
// the same Node, unless only this one has recorded it. An object of another controller is neither used nor deleted. Every
// delete request has a UID precondition. [WithDriver] says which of several Machines with one provider ID deletes the instance.
//
// Limits count by the clock of the process. What a process remembers does not depend on clocks that are set; a stage of a deletion whose
// recorded start is more than five minutes ahead begins anew, so a clock that was wrong ends a limit early or makes it begin again, and
// never makes it hours longer. A start that is more than five minutes older than the deletion is from a backup that was made in another
// one: the deletion forgets all that is recorded about that one, also a drain, before its first stage.
//
// No worker blocks on an informer or a pod. A problem that a person can fix (a missing CRD, a wrong type at a contract path, an empty
// provider ID) is a condition and an event, causes no requests while it lasts, and ends without further action when it is fixed. A Machine
// whose workload cluster cannot be reached costs no request and no pass until that changes, and delays no other.
//
// A process never decides on a Machine that is older than its own last write, because it would repeat the write. When the API server
// accepts a write and does not store the value, for example because a mutating webhook removes the finalizer, an event and a line
// of Ready report it; the write is repeated after a second, then after twice as long each time, up to half a minute, and the pass does not
// continue without it.
//
// # Cost
//
// On its way to Running, a Machine of a set costs six writes and an event: the ownership of the bootstrap object and of the infrastructure
// object, the name of the data secret, the Node, the provider ID with the Node's UID, and one status. A finalizer that the set has not set
// is one more.
//
// The deletion of a Machine whose Node has no pods to evict costs seven writes, an event and two reads, beside the request for it:
//
//   - the start of the drain, in the status, before the cordon: limits count from it in every process, and a process that later finds the
//     infrastructure gone knows that the Node was being drained;
//   - the cordon;
//   - the deletions of the infrastructure object, the bootstrap object and the Node, each by UID and only when the one before is done;
//   - a read of the infrastructure object and one of the bootstrap object, when the cache no longer has them. A cache also drops an object
//     that no longer matches its selector, so only the API server can say that one is gone. A Machine that goes earlier is replaced while
//     its instance still exists, and its provider may need it. The Node, whose deletion the API server has accepted, is not read again:
//     nothing depends on it;
//   - the removal of the finalizer, with the record of the drain for other finalizers in the same patch.
//
// Stages that last longer than [Options].StatusDelay, hooks, evictions and volumes cost more.
//
// # Limits
//
// A Machine that has or may have a Node in a workload cluster that is permanently gone waits in its deletion until its Cluster is
// deleted too, or the stages that need the Node have limits. status.nodeInfo is not copied from the Node.
//
// The priority queue of controller-runtime v0.24 can hang when its manager stops (kubernetes-sigs/controller-runtime#3538): set
// Controller.UsePriorityQueue to false in the options of a manager that must end cleanly.
package machine
