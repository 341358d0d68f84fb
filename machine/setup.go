package machine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// SetupWithManager adds a Reconciler for Machines of one kind to a manager, before the manager is started. Its Nodes are those of the
// manager's own cluster; it drains them, and records events through the manager. It reads no Clusters. To use other parts, such as
// Clusters or Nodes in workload clusters, fill Ports and call New and AddToManager.
//
// The error names what is missing. The required rights are PolicyRules and NodePolicyRules, with Drains and Events.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kind contract.Kind, options Options) (*Reconciler, error) {
	if options.Recorder == nil {
		options.Recorder = mgr.GetEventRecorder(options.withDefaults(kind).Name)
	}
	ports, err := PortsFromManager(ctx, mgr, options.Matching)
	if err != nil {
		return nil, err
	}
	r, err := New(kind, ports, options)
	if err != nil {
		return nil, err
	}
	return r, r.AddToManager(ctx, mgr)
}

// PortsFromManager returns ports for Machines and Nodes of the manager's own cluster. It indexes Nodes by rules, which are
// Options.Matching. It adds the drain runner to the manager, which also watches volumes; that costs nothing before the first drain.
// Reconcilers in one manager should share the result.
func PortsFromManager(ctx context.Context, mgr ctrl.Manager, rules noderef.Rules) (Ports, error) {
	w, err := workload.FromManager(ctx, mgr, rules)
	if err != nil {
		return Ports{}, err
	}
	return Ports{
		Ports: pass.PortsFromManager(mgr), Nodes: w.Nodes, NodeReader: w.APIReader, Drainer: w.Drainer, Volumes: w.Volumes,
	}, nil
}

// AddToManager registers the Reconciler as a controller, with its index and its watches. Call it once, before the manager
// is started.
//
// A Machine is reconciled when its Node joins, is deleted, replaced or cordoned, when the Node's addresses, its node info or the status of
// a condition changes, and when a value changes that Options.Propagation manages. A step that depends on other labels, annotations or
// taints of Nodes needs a source of its own.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.ports.validateEvents(); err != nil {
		return err
	}
	if err := r.IndexMachines(ctx); err != nil {
		return err
	}
	builder := r.frame.Controller(ctx, mgr).
		Watches(pass.NewObject(r.kind), handler.EnqueueRequestsFromMapFunc(r.otherClaimants), ctrlbuilder.WithPredicates(r.claimChanges()))
	for _, events := range r.workloads.Sources(ctx) {
		builder = builder.WatchesRawSource(events)
	}
	if r.ports.ClusterOf != nil {
		builder = builder.Watches(pass.NewObject(r.kind), r.controlPlaneEvents())
	}
	if r.ports.RolloutOf != nil {
		builder = builder.WatchesRawSource(r.ports.RolloutEvents(func(deployment types.NamespacedName) []reconcile.Request {
			return r.inDeployment(ctx, deployment)
		}))
	}
	if r.observer != nil {
		builder = builder.WatchesRawSource(source.Func(func(ctx context.Context, _ queue) error {
			r.observer.activate(ctx, r)
			return nil
		}))
	}
	return builder.Complete(r)
}

// queue is the queue that a Source receives.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
