package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/noderef"
)

// Policy holds the decisions that an embedder can replace one by one. A nil member decides as Cluster API does, unless its comment says
// something else. The functions are called in every pass that needs them, from several goroutines, and must not block; they must not
// keep or change their arguments. The Policy must not be changed after New.
//
// # Deletion
//
// The deletion of a Machine has these stages, and the condition Deleting names the current one: pre-drain hooks, drain, volumes,
// pre-terminate hooks, infrastructure, bootstrap data, Node, finalizer. Stages that follow each other at once cost one pass and one write.
// Every pass checks the hooks. Drain and volumes are done once, recorded by the Node's UID, and not started again after the wait for
// pre-terminate hooks, because those may shut down the cluster's API server. The same applies to what Cluster API up to v1.13 did in the
// same deletion before this controller took over, as its conditions DrainingSucceeded, VolumeDetachSucceeded and
// PreTerminateDeleteHookSucceeded record; those of typed kinds are not read, and their Nodes are drained again.
//
// A Node that was recorded or matched, and is not drained or not deleted, is always reported: by one event with the reason
// (EventNodeNotDrained, EventNodeNotDeleted, or that of the stage whose limit was reached), and by a line of Deleting behind the message of
// the stage until the deletion ends. A Machine that is not being deleted removes its records about a deletion, because they come from a
// backup that was made during one.
//
// A Machine whose Cluster object no longer exists can be deleted: infrastructure, bootstrap data and finalizer are removed, the Node
// stays with its cluster. A Node that was only found, by its provider ID, after the deletion of its instance began is recorded and then
// deleted like any other.
//
// After the drain, the deletion waits for volumes that are still attached to the Node, according to the VolumeAttachments of the Node's
// cluster and the Node itself; package drain's VolumePlanner documents which of them count. The wait ends with the limit in the Machine's
// spec, with the annotation contract.ExcludeVolumeDetach, or when the kubelet has not answered for five minutes.
type Policy struct {
	// NodeCare decides about the Node of a Machine that is being deleted, and says why. It is called once in every pass of such a Machine,
	// before any stage, also when the Nodes or the Cluster could not be read. Nil: DefaultNodeCare, which a function may call for the
	// cases that it does not change.
	NodeCare func(NodeCareFacts) (NodeCare, CareReason)
	// Limits returns how long each stage of a deletion may take. It may be called several times in a pass, and a change takes effect at
	// once. The start is recorded when a stage begins, also while its Nodes cannot be read. Nil: DefaultLimits.
	Limits func(*contract.MachineState) Limits
	// Unreachable decides whether a stage of a deletion that cannot read the Nodes waits or is skipped, and says why it is skipped. It is
	// called in every such pass, and never for a Machine with CareNone. Nil: DefaultUnreachable.
	Unreachable func(UnreachableFacts) (Unreachable, string)
	// EarlyProviderID copies the provider ID as soon as the InfraMachine has one, and not only when it is reported as provisioned, so that
	// the Node is recorded when it appears. The phase Provisioned of phases.ClusterAPIV1Alpha3 is only reached in this way;
	// phases.ClusterAPI calls a Machine with a provider ID Provisioned. Default false, as the contract requires.
	EarlyProviderID bool
	// Updating computes the condition Updating; its type is set by the caller.
	Updating func(*contract.MachineState) metav1.Condition
	// Health defines a healthy Node, for the condition NodeHealthy. The zero HealthRules require nothing.
	Health *noderef.HealthRules
	// DrainRules returns the rules for draining the Node of a Machine and for waiting for its volumes; nil, and a nil result, mean those
	// of the Drainer. An error delays the drain and is retried with back-off. A result must not be changed later.
	DrainRules func(context.Context, *Scope) ([]drain.Rule, error)
	// DrainPolicy decides how drains escalate, and what happens to the pods of a Node that does not answer or whose instance is off. When
	// it gives a drain up (drain.ModeAbandon), the deletion continues as at a limit. With SerialVolumes, pods with volumes
	// leave one after the other. Nil: drain.DefaultPolicy, which evicts without a
	// limit; when the kubelet has not answered for five minutes, it reduces grace periods to a second and does not wait for pods that do
	// not end. New validates it.
	DrainPolicy *drain.Policy
}
