// Package machinepool reconciles MachinePools: groups of instances that a provider manages as one.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager, for the [Kinds] that [ClusterAPI] returns or for kinds of your own. For Nodes in
// workload clusters ([Ports].NodesOf) and for pools that follow Cluster objects (Ports.ClusterOf), fill Ports and call [New].
// One connection to a workload cluster serves this package and package machine: both use a [Workload] of package noderef/workload.
//
// # Passes and steps
//
// A pass runs the [Steps] of a pool: it reads the pool, its BootstrapConfig, its InfraMachinePool and the Nodes of its cluster, decides
// in pure functions, acts, and writes the pool at the end: metadata and spec first, then status, and only what changed. Options.Steps
// takes steps of your own between the standard ones, as in package machine. Every pass counts all Nodes. A status that only reports
// progress waits for Options.StatusDelay after the last write, so that Nodes which join one after the other cost one write; problems,
// and a status that reaches the desired state, do not wait.
//
// # Instances and Nodes
//
// The provider lists its instances by their provider IDs. The order of the list and duplicate IDs have no meaning. Options.Matching
// compares whole IDs. Each instance has the one Node with its ID. When several Nodes have it, or another pool lists the same instance,
// no Node counts until a person resolves the conflict, which the condition MachinesReady names.
//
// A Node is recorded by name and UID in status.nodeRefs, which is sorted, until the Node is gone. When its instance leaves the list, the
// Node is retired: deleted as it was read, by its UID and version, after a drain while its kubelet still answers. A missing list retires no
// Node unless the provider reports that there are no instances; neither does a list with fewer instances than the provider reports or has
// reported. Before the first Node is deleted, the API server confirms that the list is current.
//
// A list that names none of the recorded Nodes is held while kubelets of Nodes that it would retire still answer and those Nodes are not
// marked as leaving: a provider that changes the form of its IDs writes such a list. Nothing is drained, deleted or recorded for it, and
// the condition InfrastructureReady has the reason InstancesHeld and says what a person can do: correct the form, mark the Nodes or delete
// them. The list takes effect when those Nodes have not been Ready for five minutes or are gone, and an empty list when spec.replicas is 0.
//
// A Node that a Machine claims, by its provider ID or as its recorded Node, is not cordoned, drained or deleted, unless the Machine
// belongs to the pool. That needs Kinds.Machine. Labels, annotations and taints of the template are written to each Node in one patch,
// by Options.Propagation.
//
// # Instances that are about to leave
//
// Cluster API drains the instances of a pool only where a Machine represents each. Here a person, a program or a provider can also mark a
// Node ([MarkedLeaving], [Policy].Leaving). All these Nodes are cordoned, then drained within their budgets, ten at a time. A Node whose
// pods cannot be evicted for a minute gives its turn to the next one, and gets another turn later. A Node keeps its turn while
// pods terminate, and needs none while it only waits for its volumes. A drained Node gets the annotation contract.DrainedAnnotation with
// its own UID; with [Workload].Volumes, after its volumes are detached. One that is uncordoned while it is to leave is drained again,
// behind the others, and loses the annotation meanwhile. A Node that is no longer marked, and whose instance the provider lists, loses the
// annotation, and is uncordoned if the pool cordoned it ([CordonedAnnotation]). An instance that is not listed may have ended, also while
// its list is held or has too few IDs. The limit of a drain counts from the Node's first turn, which contract.DrainStartedAnnotation
// records. Where the pool has contract.ExcludeDrain, Nodes get the annotation at once.
//
// A provider that makes InfraMachines (status.infrastructureMachineKind) gets a Machine for each, if [Kinds].NewMachine is set. The
// Machine controller, such as package machine, then handles single Nodes: drain, hooks, labels, deletion. A pool creates these Machines,
// deletes those whose InfraMachine is gone and, a few at a time, those that a health check has marked for replacement; and counts by
// them. After a restore from a backup it takes back Machines that have the UID which the pool had before, and adopts those that have its
// labels, stand for one of its InfraMachines and have no controller.
//
// # Phase, conditions and failures
//
// The phase is that of phases.MachinePool. Conditions are those that Cluster API has announced for v1beta2, with the words of its
// MachineSet. The counters of v1beta2 and of v1beta1 are both written; without Machines both count Nodes. failureReason and
// failureMessage are what providers report now, and are cleared when they recover. Conditions about objects that cannot be read stay
// unchanged for Options.ConnectionGrace. spec.replicas is never written. Where a kind has a field for it, the status has the selector of
// the pool's Machines, which a HorizontalPodAutoscaler requires; Cluster API's MachinePool has no such field.
//
// # Deletion
//
// First the Machines are deleted, and the Nodes of instances without a Machine drained; then the InfraMachinePool, the BootstrapConfig, the
// Nodes and the finalizer are removed. The Nodes are those of every instance that the pool has recorded or that the provider lists, also
// before the group is provisioned, and whatever the form of the IDs. The condition Deleting names the stage. When the Cluster is gone or
// being deleted, the Nodes stay. Nodes that cannot be read delay a drain for five minutes, and their deletion for
// spec.template.spec.deletion.nodeDeletionTimeoutSeconds. Both count from when this process could no longer read them. The second also does
// not begin before the instances are gone, and also limits the wait until the Nodes are deleted. A recorded Node that the index does not
// have is confirmed once at the API server (Workload.APIReader): while it exists, or cannot be confirmed as gone, it stays recorded and
// delays the deletion of the instances like an unread Node. Every delete has a UID precondition.
//
// # Limits
//
// Limits count by the clock of the process. A drain or a stage of a deletion whose recorded start is more than five minutes ahead begins
// anew, so a clock that was wrong ends a limit early or makes it begin again, and never makes it hours longer.
//
// The limit of the wait for volumes of a leaving instance counts from when this process began to wait. Taints and versions of existing
// Machines are not changed. status.versions is not written.
package machinepool
