// Package machinepool reconciles MachinePools: groups of instances that a provider manages as one.
//
// [SetupWithManager] adds a [Reconciler] to a manager, for the [Kinds] that [ClusterAPI] returns or for kinds of your own. For Nodes in
// workload clusters ([Ports].NodesOf) and for pools that follow Cluster objects (Ports.ClusterOf), fill Ports and call [New]. One
// connection to a workload cluster serves this package and package machine. A pass runs the [Steps] of a pool; Options.Steps can insert
// steps of your own.
//
// # Instances and Nodes
//
// The provider lists its instances by their provider IDs, in any order. Each has the one Node with its ID. If several Nodes have the ID, or
// another pool lists the same instance, no Node counts until a person resolves the conflict, which the condition MachinesReady names.
//
// A Node is recorded by name and UID in status.nodeRefs until it is gone. When its instance leaves the list, the Node is retired: it is
// drained while its kubelet still responds, and then deleted in the version that was read, by its UID. A missing list retires no Node
// unless the provider reports that there are no instances; neither does a list with fewer instances than the provider reports or has
// reported. Before the first Node is deleted, the API server confirms that the list is current.
//
// A list without any of the recorded Nodes is held while kubelets of Nodes that it would retire still respond and those Nodes are not
// marked as leaving: a provider that changes the form of its IDs writes such a list. Nothing is drained, deleted or recorded for it; the
// condition InfrastructureReady has the reason [ReasonInstancesHeld] and describes what a person can do. The list takes effect when those
// Nodes have not been Ready for five minutes or are gone, and an empty list when spec.replicas is 0.
//
// A Node that a Machine claims, whether or not the Machine is one of the pool, is not cordoned, drained or deleted: the controller of
// Machines does that. This needs Kinds.Machine.
//
// # Instances that are about to leave
//
// A person, a program or a provider can mark a Node (scale.Marks, [Policy].Leaving). These Nodes are cordoned, then all drained within
// their budgets; the condition MachinesReady names them and what the first one waits for. A drained Node gets the annotation
// contract.DrainedAnnotation with its own UID, after its volumes are detached, or at once if the pool has contract.ExcludeDrain. A marked
// Node that is uncordoned is drained again. When a Node is no longer marked and the provider lists its instance, the annotation is removed,
// and the Node is uncordoned if the pool cordoned it. contract.DrainStartedAnnotation has the start of the drain, from which its limit
// counts, followed by the word cordoned if the pool cordoned the Node. These marks are written only to the version of a Node that was read.
//
// A provider that creates InfraMachines (status.infrastructureMachineKind) gets a Machine for each, if [Kinds].NewMachine is set. The
// Machine controller then handles single Nodes. A pool creates these Machines and counts by them. It deletes those whose InfraMachine is
// gone and, one at a time, those that a health check has marked for replacement. It drains and deletes the Node of a leaving instance
// without a Machine. After a restore from a backup it takes back Machines with the former UID of the pool, and adopts Machines that have
// its labels, represent one of its InfraMachines and have no controller.
//
// # Deletion
//
// First the Machines are deleted, and the Nodes of instances without a Machine drained; then the InfraMachinePool, the BootstrapConfig, the
// Nodes and the finalizer are removed. The Nodes are those of every instance that the pool has recorded or that the provider lists. The
// condition Deleting names the stage. When the Cluster is gone or being deleted, the Nodes are not touched. Nodes that cannot be read delay
// a drain for five minutes, and their deletion for nodeDeletionTimeoutSeconds, which begins when the instances are gone. A recorded Node
// that is missing in the index delays the deletion of the instances until the API server confirms that it is gone. Every delete request has
// a UID precondition.
//
// # Limits
//
// Conditions about objects that cannot be read are not changed for Options.ConnectionGrace. spec.replicas is never written. Limits use the
// clock of the process; a recorded start that is more than five minutes in the future begins anew. The limit of the wait for volumes of a
// leaving instance counts from when this process began to wait. Taints and versions of existing Machines are not changed. status.versions
// is not written.
package machinepool
