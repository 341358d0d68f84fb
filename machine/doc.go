// Package machine reconciles one Machine: bootstrap data, infrastructure and Node; in a deletion also the drain and the Node's deletion.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager. A [Reconciler] runs an ordered list of [Step]s over one [Scope]: take [Steps],
// change the list with its methods InsertBefore, InsertAfter, Replace and Remove, and set it in [Options]; [New] returns what is wrong with
// the list. [Reconciler.ReconcileObject] makes one pass in a loop of your own. The CRD of the Machines must be installed before.
//
// Every pass runs all steps for a running Machine, or all steps of a deletion, until one of them ends the pass. A one-time action must
// check whether it already ran: by the object that it created, or by a condition ([Scope.Assert]). A step that creates objects belongs
// behind [StepFinalizer], which ends the pass until the finalizer is stored. [New] rejects a list that is not safe, and says what to
// change.
//
// A Machine without a bootstrap object and an infrastructure object needs a list without [StepBootstrap] and [StepInfrastructure], and with
// one step before [StepNode] that creates or finds the instance and calls [Scope.SetProviderID]: the Machine's Node is the one with this
// spec.providerID. When the instance exists, the step also calls [Scope.SetInfrastructureReady], in every pass unless the type stores the
// value. A step before [StepDeleteInfrastructure], or in its place, deletes the instance. A type of your own must store the provider ID,
// and the Node with its UID: [New] rejects a kind that does not store what the steps need, and contract.CheckKind reports that in a test.
// examples/embed is such an operator.
//
// Where to read on: [Policy] has the stages of a deletion and [Stage] one of your own, [contract.ConditionReady] and its neighbors the
// conditions, [Ports] how Nodes in workload clusters are reached (package noderef/cluster), [Metrics] the metrics, [PolicyRules] and
// [NodePolicyRules] the required RBAC rules, and [PhaseStep] the phases of other dialects.
//
// # Guarantees
//
// An unread object is not absent: no stage of a deletion is skipped because a read failed, and before a deletion continues because an
// object is gone, the API server confirms it, once. The same applies to a recorded Node that the index does not have, and to the Machines
// of a control plane. A Node is drained and deleted only while its UID and provider ID are the recorded ones (only its UID for a Node
// that a step in place of [StepNode] has matched), and never while another Machine names the same Node, unless only this one has recorded
// it. An object of another controller is neither used nor deleted. Every delete request has a UID precondition.
//
// A pass writes the Machine at its end: metadata and spec first, then status. Patches carry metadata.uid; one that replaces a list also
// carries the resourceVersion. A status is written [Options].StatusDelay after the one before. What a step needs stored (a [Result] with
// Checkpoint), and that a Machine becomes or ceases to be ready, is written at once.
//
// Limits count by the clock of the process. A stage of a deletion whose recorded start is more than five minutes ahead begins anew. What is
// recorded of another deletion, in a backup that was made during one, counts for nothing: contract.Deletion has the timestamp of its own,
// and a start in Cluster API's status counts unless it is more than five minutes older than that.
//
// No worker blocks on an informer or a pod. A problem that a person can fix is a condition and an event, causes no requests while it lasts,
// and ends without further action when it is fixed. A Machine whose workload cluster cannot be reached costs no request and no pass until
// that changes, and delays no other.
//
// A process never decides on a Machine that is older than its own last write. When the API server accepts a write and does not store the
// value, an event and a line of Ready report it; the write is repeated more and more rarely, up to every half a minute, and the pass does
// not continue without it.
//
// # Limits
//
// A Machine that has or may have a Node in a workload cluster that is permanently gone waits in its deletion until its Cluster is
// deleted too, or the stages that need the Node have limits. Hooks have none. A Machine that a backup brings back as
// it was before its deletion leaves its Node unschedulable, since nothing tells the cordon of a drain from a person's: uncordon it.
// status.nodeInfo is not copied from the Node.
//
// The priority queue of controller-runtime v0.24 can hang when its manager stops (kubernetes-sigs/controller-runtime#3538): set
// Controller.UsePriorityQueue to false in the options of a manager that must end cleanly.
package machine
