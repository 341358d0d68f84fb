// Package machine reconciles one Machine: bootstrap data, infrastructure and Node; in a deletion also the drain and the Node's deletion.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager. A [Reconciler] runs an ordered list of [Step]s over one [Scope]: start from [Steps],
// change the list with its methods InsertBefore, InsertAfter, Replace and Remove, and set it in [Options]. [New] reports all errors in the
// list, and rejects a list that is not safe. [Reconciler.ReconcileObject] makes one pass in a loop of your own. The CRD of the Machines
// must be installed before.
//
// Every pass runs all steps for a running Machine, or all steps of a deletion, until one of them ends the pass. A one-time action must
// check whether it already ran: by the object that it created, or by a condition ([Scope.Assert]). A step that creates objects must be
// behind [StepFinalizer], which ends the pass until the finalizer is stored.
//
// A Machine without a bootstrap object and an infrastructure object needs a list without [StepBootstrap] and [StepInfrastructure]. One step
// before [StepNode] creates or finds the instance and calls [Scope.SetProviderID]: the Machine's Node is the Node with this
// spec.providerID. When the instance exists, the step also calls [Scope.SetInfrastructureReady], in every pass unless the type stores the
// value. A step before [StepDeleteInfrastructure], or in its place, deletes the instance. A type of your own must store the provider ID,
// and the Node with its UID: [New] rejects a kind that does not store what the steps need, and contract.CheckKind reports this in a test.
// examples/embed is such an operator.
//
// See [Policy] for the stages of a deletion, [Stage] for a stage of your own, [contract.ConditionReady] for the conditions, [Ports] for
// Nodes in workload clusters (package noderef/cluster), [Metrics] for the metrics, [PolicyRules] and [NodePolicyRules] for the required
// RBAC rules, and [PhaseStep] for the phases of other dialects.
//
// # Guarantees
//
// An object that could not be read is not absent: no stage of a deletion is skipped because a read failed. Before a deletion continues
// because an object is gone, the API server confirms it, once. The same applies to a recorded Node that is not in the index, and to the
// Machines of a control plane. A Node is drained and deleted only while its UID and provider ID are the recorded ones (only its UID for a
// Node that a step in place of [StepNode] has matched), and never while another Machine claims the same Node, unless only this Machine has
// recorded it. An object of another controller is neither used nor deleted. Every delete request has a UID precondition.
//
// A pass writes the Machine at its end: metadata and spec first, then status. Patches carry metadata.uid; a patch that replaces a list also
// carries the resourceVersion. Two writes of the status are at least [Options].StatusDelay apart. The values that a step requires to be
// stored (a [Result] with Checkpoint), and a change of whether the Machine is ready, are written at once.
//
// Limits use the clock of the process. A stage of a deletion whose recorded start is more than five minutes in the future begins anew.
// Records of another deletion, from a backup that was made during a deletion, are ignored: contract.Deletion has the timestamp of its
// deletion, and a start in Cluster API's status counts unless it is more than five minutes older than that timestamp.
//
// No worker blocks on an informer or a pod. A problem that a person can fix is a condition and an event, causes no requests while it lasts,
// and ends without further action when it is fixed. A Machine whose workload cluster cannot be reached costs no request and no pass until
// the cluster can be reached, and delays no other Machine.
//
// A process never decides on a version of a Machine that is older than its own last write. When the API server accepts a write but does not
// store the value, an event and a line of Ready report it. The write is repeated with a back-off of up to half a minute, and the pass does
// not continue without it.
//
// # Limits
//
// A Machine that has or may have a Node in a workload cluster that is permanently gone waits in its deletion until its Cluster is deleted
// too, unless the stages that need the Node have limits. Hooks have no limit. A Machine that is restored from a backup to its state before
// its deletion leaves its Node unschedulable, since the cordon of a drain cannot be distinguished from a person's: uncordon the Node.
// status.nodeInfo is not copied from the Node.
//
// The priority queue of controller-runtime v0.24 can hang when its manager stops (kubernetes-sigs/controller-runtime#3538): set
// Controller.UsePriorityQueue to false in the options of a manager that must end cleanly.
package machine
