package machinepool

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
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
// Options.Matching. It adds a drain runner to the manager, which costs nothing before the first drain. Who has Nodes and a Drainer
// already, such as those of package machine, puts them into Ports.Workload instead.
func PortsFromManager(ctx context.Context, mgr ctrl.Manager, rules noderef.Rules) (Ports, error) {
	workload, drainer, err := newWorkload(ctx, mgr, rules)
	if err != nil {
		return Ports{}, err
	}
	if err := mgr.Add(drainer); err != nil {
		return Ports{}, fmt.Errorf("drain runner: %w", err)
	}
	return Ports{Client: mgr.GetClient(), Cache: mgr.GetCache(), APIReader: mgr.GetAPIReader(), Workload: workload}, nil
}

// SetupWorkload returns what cluster.Options.Setup asks for: it puts a Node index for rules, which are Options.Matching, and a drain
// runner on a connection.
func SetupWorkload(rules noderef.Rules) func(context.Context, *cluster.Connection) (Workload, error) {
	return func(ctx context.Context, c *cluster.Connection) (Workload, error) {
		workload, drainer, err := newWorkload(ctx, c, rules)
		if err != nil {
			return Workload{}, err
		}
		c.Go(func(ctx context.Context) { _ = drainer.Start(ctx) }) // when it has ended, its Step says so
		return workload, nil
	}
}

func newWorkload(ctx context.Context, c ctrlcluster.Cluster, rules noderef.Rules) (Workload, *runner.ClusterRunner, error) {
	nodes, err := nodeindex.New(ctx, c.GetCache(), nodeindex.Options{Rules: rules})
	if err != nil {
		return Workload{}, nil, fmt.Errorf("node index: %w", err)
	}
	drainer, err := runner.NewClusterRunner(c, runner.ClusterOptions{})
	if err != nil {
		return Workload{}, nil, fmt.Errorf("drain runner: %w", err)
	}
	return Workload{Nodes: nodes, Client: c.GetClient(), APIReader: c.GetAPIReader(), Drainer: drainer}, drainer, nil
}

// AddToManager registers the Reconciler as a controller, with its index and its watches. Call it once, before the manager is started.
//
// A pool is woken by a Node of its instances when that joins, goes, is replaced, cordoned or marked as leaving, when the status of one
// of its conditions changes, and when something changes that Options.Propagation manages.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.IndexPools(ctx); err != nil {
		return err
	}
	mine := predicate.NewPredicateFuncs(func(obj client.Object) bool { return r.matchesWatchFilter(obj) })
	mine.UpdateFunc = func(e event.UpdateEvent) bool {
		return r.matchesWatchFilter(e.ObjectOld) || r.matchesWatchFilter(e.ObjectNew)
	} // its end too
	builder := ctrl.NewControllerManagedBy(mgr).Named(r.options.Name).WithOptions(r.options.Controller).
		For(newObject(r.kinds.Pool), ctrlbuilder.WithPredicates(mine)).
		WatchesRawSource(r.tracker)
	if r.kinds.knowsMachines() { // also where only their claims count: nothing waits for their first list then
		builder = builder.Watches(newObject(r.kinds.Machine), handler.EnqueueRequestsFromMapFunc(r.poolOfMachine))
	}
	if nodes, ok := r.ports.Workload.Nodes.(interface {
		Source(nodeindex.Mapper) source.SyncingSource
	}); ok {
		builder = builder.WatchesRawSource(nodes.Source(r.wakenBy(ctx, types.NamespacedName{})))
	}
	if drainer, ok := r.ports.Workload.Drainer.(interface{ Source() source.Source }); ok {
		builder = builder.WatchesRawSource(drainer.Source())
	}
	if r.ports.NodesOf != nil {
		events := r.ports.WorkloadEvents(func(key types.NamespacedName) []reconcile.Request { return r.inCluster(ctx, key) })
		builder = builder.WatchesRawSource(r.events).WatchesRawSource(events)
	}
	if r.ports.ClusterOf != nil {
		builder = builder.WatchesRawSource(r.ports.ClusterEvents(func(key types.NamespacedName) []reconcile.Request {
			return r.poolsByKey(ctx, key.Namespace, clusterKey(key))
		}))
	}
	return builder.Complete(r)
}
