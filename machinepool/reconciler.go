package machinepool

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// The generic parts of a reconciler, for MachinePools.
type (
	frame    = engine.Frame[contract.MachinePoolState, contract.MachinePoolUpdate]
	passes   = engine.Reconciler[contract.MachinePoolState, contract.MachinePoolUpdate, *Scope]
	poolKind = engine.Kind[contract.MachinePoolState, contract.MachinePoolUpdate, *Scope]
)

// Reconciler reconciles MachinePools of one kind. Safe for concurrent use.
type Reconciler struct {
	*passes

	frame     *frame
	kinds     Kinds
	ports     Ports
	options   Options
	memory    *engine.Memory[recollection]
	workloads *cluster.Tracker
	// machines reads the Machines that represent single instances.
	machines    *children.Frame[contract.MachinePoolState, contract.MachinePoolUpdate, contract.MachineState, contract.MachineUpdate]
	unreadLimit time.Duration // defaultUnreadLimit; tests use a shorter one
}

// New returns a Reconciler. It reports all errors in its inputs at once, and makes no request.
func New(kinds Kinds, ports Ports, options Options) (*Reconciler, error) {
	options = options.withDefaults(kinds.Pool)
	f, err := engine.NewFrame("machine pool reconciler", kinds.Pool, Finalizer, ports.Ports, options.Options,
		kinds.validate(), ports.validate(), options.Policy.DrainPolicy.Validate(), checkSteps(options.Steps))
	if err != nil {
		return nil, err
	}
	f.Normalize = withCluster
	r := &Reconciler{
		frame: f, kinds: kinds, ports: ports, options: options, unreadLimit: defaultUnreadLimit,
		machines: children.NewFrame(f, kinds.Machine, nil, "Machine"),
		memory: engine.NewMemory(func() *recollection { return &recollection{draining: map[string]time.Time{}} },
			func(forgotten *recollection) { forgotten.release(nil) }),
	}
	f.Track("kinds that MachinePools refer to", r.poolsOf)
	r.workloads = cluster.NewTracker(cluster.TrackerConfig{
		Kind: "MachinePool", Own: ports.Workload.Or(f.Ports.Client, f.Ports.APIReader), NodesOf: ports.NodesOf,
		Events: ports.WorkloadEvents, OfNode: r.poolsOfNode, InCluster: f.InCluster,
	})
	r.passes = engine.NewReconciler(poolKind{
		Frame: f, Steps: options.Steps, Begin: begin, Flush: flush, Forget: r.memory.Forget,
		NewScope: func() *Scope { return &Scope{env: r} },
	})
	return r, nil
}

// withCluster completes the state of a pool: a pool whose spec names no cluster belongs to the cluster in its label. Rule: Cluster API's
// page on the MachinePool controller, "Expected labels".
func withCluster(s *contract.MachinePoolState) {
	s.ClusterName = cmp.Or(s.ClusterName, s.Labels[contract.ClusterNameLabel])
}

// clusterOf returns the workload cluster of a pool; the zero name means Ports.Workload.
func (r *Reconciler) clusterOf(state *contract.MachinePoolState) types.NamespacedName {
	return r.workloads.ClusterOf(state.Key.Namespace, state.ClusterName)
}
