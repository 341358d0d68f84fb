// Package machine leads a Machine through its life: bootstrap data, infrastructure, Node; and at the end drain, clean-up and
// the Node's deletion.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager. A [Reconciler] is an ordered list of [Step]s over one [Scope]; take
// [Steps], change it with [InsertBefore], [InsertAfter] and [Replace], and hand it to [Options]. [Reconciler.ReconcileObject]
// makes one pass inside a loop of your own.
//
// # How a pass works
//
// A pass reads the Machine and what it refers to, decides in pure functions, acts on others in thin ones, and writes the
// Machine at the end: metadata and spec first, then status on top of what the server returned. What says what it said
// before is not written. Patches are minimal merge patches; each carries metadata.uid, and one that replaces a list
// carries the resourceVersion too, so that a change of somebody else is never lost: the pass is decided again.
//
// A status on the way somewhere is written only when it has lasted for Options.StatusDelay, so that stages which follow
// each other at once cost one write. What a step needs stored (a [Result] with Checkpoint) and the status of a ready Machine
// are written at once.
//
// # Where Nodes are
//
// SetupWithManager looks for Nodes in the manager's own cluster. With [Ports].NodesOf, each Machine's Node is in the workload
// cluster that the Machine names, and is found, watched, written and drained there alone: Nodes of two clusters may have the
// same names and provider IDs. package noderef/cluster connects; [SetupWorkload] and [NodesOf] join the two. A cluster that is
// not connected, or whose Nodes are not listed yet, is unread: NodeReady and NodeHealthy become Unknown (ConnectionDown,
// InspectionFailed), those of a Machine with a Node only after Options.ConnectionGrace; bootstrap data and infrastructure go
// on; in a deletion, drain and Node deletion wait, and say for what.
//
// # Guarantees
//
// Unread is not absent: no stage of a deletion is skipped because something could not be read, and before a deletion goes on
// because an object is gone, the API server itself is asked. A Node is drained and deleted only while its UID and provider ID
// are the recorded ones, and never while another Machine names the same Node, unless this one alone has recorded it; an
// object that another controller owns is neither used nor deleted; every delete carries a UID precondition. No worker waits: not for an informer, not for a pod. Trouble
// that a person can mend (a CRD that does not exist, a wrong type at a contract path, an empty provider ID) is a condition
// and an event, makes no requests while it lasts, and ends by itself when it is mended.
//
// A Machine whose workload cluster cannot be reached costs no request and no pass until that changes, and holds up no other.
//
// A process never decides on a Machine older than its own last write of it, because that would repeat the write.
//
// # Limits
//
// No Cluster object is read: Machines count as initialised, and only their own paused annotation stops them. A deletion waits
// for a workload cluster that is gone for good until the Machine's finalizer is removed by hand. Volumes are not waited for. The whole set of Cluster API's
// conditions is not there yet: BootstrapConfigReady, InfrastructureReady, NodeReady, NodeHealthy, Deleting, Paused and Ready
// are.
//
// Queues are the manager's. The priority queue of controller-runtime v0.24 can hang when its manager stops
// (kubernetes-sigs/controller-runtime#3538): set Controller.UsePriorityQueue to false in the options of a manager that has to
// end cleanly.
package machine
