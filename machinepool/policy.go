package machinepool

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// DataSecret says what happens to the name of the bootstrap data Secret in a pool's template when its BootstrapConfig names one.
type DataSecret uint8

const (
	// KeepDataSecret copies the name only into a template that names none: a name that a user has written stays, and says that the
	// bootstrap data is there. It is what Cluster API's page on the MachinePool controller says.
	KeepDataSecret DataSecret = iota
	// FollowDataSecret has the template always name the Secret that the BootstrapConfig names, so that a rotated one is followed, and
	// one of a user is overwritten. It is what Cluster API does.
	FollowDataSecret
)

// Policy holds the decisions that an embedder can replace one by one. It must not be changed after New.
type Policy struct {
	// DataSecret says whether a rotated Secret is followed. Default KeepDataSecret.
	DataSecret DataSecret
	// Leaving reports whether the instance of a Node is about to leave, so that the Node is drained. It must not block. Default
	// MarkedLeaving. The instances that the provider names (contract.LeavingInstancesAnnotation) leave in any case.
	Leaving func(*corev1.Node) bool
	// KeepRetired keeps Nodes whose instances have left the pool. Default: they are deleted, after a drain when they are still Ready.
	KeepRetired bool
	// NoDrain keeps a pool from draining Nodes. The Machine controller drains the Nodes of Machines that represent instances. An instance
	// that the provider reports as leaving then waits until another controller writes contract.DrainedAnnotation on its Node, unless the
	// pool has contract.ExcludeDrain.
	NoDrain bool
	// DrainRules are the rules by which Nodes are drained; nil means those of the Drainer. DrainPolicy says how drains escalate; nil
	// means drain.DefaultPolicy. New validates it.
	DrainRules  []drain.Rule
	DrainPolicy *drain.Policy
	// MaxDraining is how many Nodes of a pool are drained at the same time. Default DefaultMaxDraining.
	MaxDraining int
	// StuckAfter is for how long no pod of a Node may leave, because of budgets or rejected evictions, until another Node that waits to be
	// drained takes its turn. It stays cordoned, its limit continues to count, and its turn comes again. Default DefaultStuckAfter;
	// negative: never.
	StuckAfter time.Duration
	// UnreadLimit is how long the drain of a pool in deletion waits for Nodes that cannot be read, because the workload cluster does
	// not answer or its kubeconfig is gone; then the pool is deleted without. Default DefaultUnreadLimit; negative: for ever.
	UnreadLimit time.Duration
	// MaxRemediating is how many unhealthy Machines of a pool may be deleted at the same time. Default 1; negative: no limit.
	MaxRemediating int
}

func (p Policy) withDefaults() Policy {
	if p.Leaving == nil {
		p.Leaving = MarkedLeaving
	}
	if p.DrainPolicy == nil {
		p.DrainPolicy = drain.DefaultPolicy()
	}
	if p.MaxDraining <= 0 {
		p.MaxDraining = DefaultMaxDraining
	}
	if p.StuckAfter == 0 {
		p.StuckAfter = DefaultStuckAfter
	}
	if p.UnreadLimit == 0 {
		p.UnreadLimit = DefaultUnreadLimit
	}
	if p.MaxRemediating == 0 {
		p.MaxRemediating = 1
	}
	return p
}

// DeleteMachineAnnotation of a Machine, and here of a Node too, marks what is deleted first. It is Cluster API's.
const DeleteMachineAnnotation = "cluster.x-k8s.io/delete-machine"

// MarkedLeaving reports whether a Node has DeleteMachineAnnotation, with any value.
func MarkedLeaving(node *corev1.Node) bool {
	_, marked := node.Annotations[DeleteMachineAnnotation]
	return marked
}

// Propagation returns a pool's default policy for its Nodes: that of propagate.ClusterAPI, except that there is no Machine to name.
// Rule: Cluster API's MachinePool controller, which hands down the marks alone.
func Propagation() *propagate.Policy {
	policy := propagate.ClusterAPI()
	policy.AnnotationMarks = []propagate.Mark{
		{Key: propagate.ClusterNameAnnotation, Field: propagate.OwnerCluster},
		{Key: propagate.ClusterNamespaceAnnotation, Field: propagate.OwnerNamespace},
		{Key: propagate.OwnerKindAnnotation, Field: propagate.OwnerControllerKind},
		{Key: propagate.OwnerNameAnnotation, Field: propagate.OwnerControllerName},
	}
	return policy
}
