// Package machinepool looks after MachinePools: groups of instances that a provider manages as one.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager, for the [Kinds] that [ClusterAPI] returns or for kinds of your own. [New] takes
// the parts one by one, for Nodes in workload clusters ([Ports].NodesOf) and for pools that follow Cluster objects (Ports.ClusterOf).
// [Reconciler.ReconcileObject] makes one pass inside a loop of your own. One connection to a workload cluster serves this package and
// package machine: both use a [Workload] of package noderef/workload.
//
// # How a pass works
//
// A pass reads the pool, its BootstrapConfig, its InfraMachinePool and the Nodes of its cluster, decides in pure functions, acts, and
// writes the pool at the end: spec first, then status, and nothing without a change. Every pass counts all Nodes. A status that only
// reports progress waits for Options.StatusDelay after the last write, so that Nodes which join one after the other cost one write;
// problems, and a status that reaches the desired state, do not wait.
//
// # Instances and Nodes
//
// The provider lists its instances by their provider IDs. Their order, and IDs that stand twice, mean nothing. IDs are compared by
// Options.Matching, whole and not by their end. Each instance has the one Node that carries its ID; where several do, or where another
// pool names the same instance, none has it until a person has resolved the conflict, and the condition MachinesReady says so by name.
//
// A Node is recorded by name and UID in status.nodeRefs, which is sorted, until its object is gone. When its instance leaves the list
// the Node is retired: deleted by its UID, after a drain while its kubelet still answers. No Node is retired by a list that is missing
// while the provider does not say that there are no instances, or that names fewer instances than it says there are, or has said before;
// and before the first of them goes, the API server is asked whether the list is still its own.
//
// A list that names none of the recorded Nodes, while the kubelets of Nodes that it would retire still answer and neither the provider nor a person has said that they
// leave, is held: providers that change the form of their IDs write such a list. Nothing is drained, deleted or recorded for it, and the
// condition InfrastructureReady says InstancesHeld, with what a person can do: mend the form, or confirm the list by
// [ConfirmedInstancesAnnotation]. It is believed once those Nodes have not been Ready for five minutes or are gone, and an empty one when
// spec.replicas is 0.
//
// A Node that a Machine claims, by its provider ID or as its recorded Node, is neither cordoned nor drained nor deleted, unless the Machine
// is one of the pool's own. That needs Kinds.Machine.
//
// What the template says about labels, annotations and taints reaches each Node in one patch, by Options.Propagation.
//
// # Instances that are about to leave
//
// Cluster API drains the instances of a pool only where a Machine stands for each. Here a provider may also name those that it is about
// to take away (contract.LeavingInstancesAnnotation on its InfraMachinePool), or a person or a program can mark a Node ([MarkedLeaving],
// [Policy].Leaving). All these Nodes are cordoned, then drained behind their budgets, a few at a time (Policy.MaxDraining); one on which
// nothing moves for Policy.StuckAfter, because its pods may not go, gives its turn to one that waits, and gets it again later. Each then
// says that it was drained: annotation contract.DrainedAnnotation with its own UID. With [Workload].Volumes, volumes have to be detached
// before that. A Node that is named no more says so no more, and serves again if the cordon is the pool's ([CordonedAnnotation]). The limit
// of a drain counts from when a Node's turn came first, which contract.DrainStartedAnnotation says on it. Where the pool has
// contract.ExcludeDrain, Nodes say at once that they were drained.
//
// A provider that makes InfraMachines (status.infrastructureMachineKind) gets a Machine for each, if [Kinds].NewMachine is set. The
// Machine controller, such as package machine, then handles single Nodes: drain, hooks, labels, deletion. A pool creates these Machines,
// deletes those whose InfraMachine is gone and, a few at a time, those that a health check has handed over; and counts by them. Machines that
// name the pool by a UID from before a restore are its own, and are taken back. While
// the InfraMachinePool cannot be read, the Machines that there are say who looks after Nodes.
//
// # Phase, conditions and failures
//
// The phase is that of phases.MachinePool, from facts alone. Conditions are those that Cluster API has announced for v1beta2 and not
// written yet, with the words of its MachineSet: Available, BootstrapConfigReady, InfrastructureReady, MachinesReady, MachinesUpToDate,
// ScalingUp, ScalingDown, Remediating, Deleting, Paused. The counters of v1beta2 and those of v1beta1 are both written; without Machines
// both count Nodes. failureReason and failureMessage are what providers report now, and go when they recover. Conditions about what cannot
// be read any more stay as they are for Options.ConnectionGrace.
//
// The number of replicas is never written, so that the pool does not conflict with another component that manages it
// (annotation cluster.x-k8s.io/replicas-managed-by). Where a kind has a place for it, the status names the selector of the pool's
// Machines: a HorizontalPodAutoscaler scales nothing whose Scale has none. Cluster API's MachinePool has no such place.
//
// # Deletion
//
// Machines go first, or the Nodes are drained; then the InfraMachinePool, the BootstrapConfig, the Nodes and the finalizer. The condition
// Deleting names the stage. A pool whose Cluster is gone or going leaves its Nodes with it. Nodes that cannot be read, because the API
// server or the kubeconfig of the cluster is gone, hold a drain up for Policy.UnreadLimit, and their deletion for
// spec.template.spec.deletion.nodeDeletionTimeoutSeconds. Both count from when this process cannot read them any more, the second not from
// before the instances are gone; it also ends the wait for Nodes that do not go. A recorded Node that the index does not have is asked for at
// the API server itself (Workload.APIReader), once: one that is there after all, or that cannot be asked for, stays recorded, and holds the
// deletion of the instances up as Nodes do that cannot be read. Every delete carries a UID.
//
// # Limits
//
// The limit of the wait for the volumes of a leaving instance counts from when this process began with it. Taints and
// versions of Machines that exist are not changed. status.versions is not written.
package machinepool
