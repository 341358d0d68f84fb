package machinepool

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// SetupWithManager adds a Reconciler for pools to a manager, before the manager is started. Its Nodes are those of the manager's own
// cluster; it drains them, and records events through the manager. It reads no Clusters. To use other parts, such as Clusters or Nodes in
// workload clusters, fill Ports and call New and AddToManager. The required rights are PolicyRules and NodePolicyRules.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kinds Kinds, options Options) (*Reconciler, error) {
	if options.Recorder == nil {
		options.Recorder = mgr.GetEventRecorder(options.withDefaults(kinds.Pool).Name)
	}
	ports, err := PortsFromManager(ctx, mgr, options.Matching)
	if err != nil {
		return nil, err
	}
	r, err := New(kinds, ports, options)
	if err != nil {
		return nil, err
	}
	return r, r.AddToManager(ctx, mgr)
}

// PortsFromManager returns ports for pools and Nodes of the manager's own cluster. Its Nodes are looked up by rules, which are
// Options.Matching. It adds a drain runner to the manager, which also watches volumes; that costs nothing before the first drain. Where
// the manager has a Workload already, such as that of package machine, put it into Ports.Workload instead.
func PortsFromManager(ctx context.Context, mgr ctrl.Manager, rules noderef.Rules) (Ports, error) {
	w, err := workload.FromManager(ctx, mgr, rules)
	if err != nil {
		return Ports{}, err
	}
	return Ports{Ports: pass.PortsFromManager(mgr), Workload: w}, nil
}

// AddToManager registers the Reconciler as a controller, with its index and its watches. Call it once, before the manager is started.
//
// A pool is woken by a Node of its instances when that joins, goes, is replaced, cordoned or marked as leaving, when the status of one
// of its conditions changes, and when something changes that Options.Propagation manages.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.IndexPools(ctx); err != nil {
		return err
	}
	builder := r.frame.Controller(ctx, mgr)
	if r.kinds.knowsMachines() { // also where only their claims count: nothing waits for their first list then
		builder = builder.Watches(pass.NewObject(r.kinds.Machine), handler.EnqueueRequestsFromMapFunc(r.poolOfMachine))
	}
	for _, events := range r.workloads.Sources(ctx) {
		builder = builder.WatchesRawSource(events)
	}
	return builder.Complete(r)
}

// poolOfMachine maps an event about a Machine to the pool that controls it.
func (r *Reconciler) poolOfMachine(_ context.Context, obj client.Object) []reconcile.Request {
	return r.frame.ControllerOf(obj)
}
