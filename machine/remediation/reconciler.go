package remediation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

type reconciler = engine.Reconciler[contract.HealthCheckState, contract.HealthCheckUpdate, *scope]

// Reconciler judges the Machines of health checks, and requests the remediation of those that are unhealthy. If you call its method
// ReconcileObject in a loop of your own, call Index once before the cache starts. Safe for concurrent use for different checks.
type Reconciler struct {
	*reconciler

	frame     *engine.Frame[contract.HealthCheckState, contract.HealthCheckUpdate]
	kinds     contract.Kinds
	ports     Ports
	options   Options
	workloads *cluster.Tracker
}

// New returns a Reconciler. It reports all errors in its inputs at once and makes no request. Most callers want SetupWithManager, which
// fills the ports from a manager.
func New(kinds contract.Kinds, ports Ports, options Options) (*Reconciler, error) {
	options = options.withDefaults(kinds.Check)
	frame, err := engine.NewFrame("health check reconciler", kinds.Check, "", ports.Ports, options.Options, validate(kinds))
	if err != nil {
		return nil, err
	}
	r := &Reconciler{frame: frame, kinds: kinds, ports: ports, options: options}
	frame.Track("remediation templates and requests", func(ctx context.Context, _, obj client.Object) []reconcile.Request {
		return frame.ByKey(ctx, obj.GetNamespace(), "") // a CRD has no namespace; the empty one means all
	})
	r.workloads = cluster.NewTracker(cluster.TrackerConfig{
		Kind: kinds.Check.GVK.Kind, Own: ports.Workload.Or(ports.Client, ports.APIReader), NodesOf: ports.NodesOf, Events: ports.WorkloadEvents,
		OfNode: func(ctx context.Context, cluster types.NamespacedName, _ ...*corev1.Node) []reconcile.Request {
			if cluster.Name == "" { // the Nodes of checks without a cluster
				return frame.ByKey(ctx, "", "")
			}
			return frame.InCluster(ctx, cluster)
		},
		StatusOnly: true, InCluster: frame.InCluster,
	})
	r.reconciler = engine.NewReconciler(engine.Kind[contract.HealthCheckState, contract.HealthCheckUpdate, *scope]{
		Frame: frame, Steps: steps(), Begin: r.begin, Flush: flush,
		NewScope: func() *scope { return &scope{env: r} },
	})
	return r, nil
}

func (r *Reconciler) begin(ctx context.Context, s *scope) {
	s.ReadCluster(ctx)
	s.workload, s.nodesErr = r.workloads.Of(r.workloads.ClusterOf(s.State.Key.Namespace, s.State.ClusterName))
}

// flush writes the object at the end of a pass.
func flush(ctx context.Context, s *scope, err error) error {
	failed := err != nil && !engine.IsStale(err)
	err = s.Flush(ctx, engine.Writing{Observes: !failed && s.decided, Silent: failed && !s.decided})
	if s.restricted != "" && s.WroteStatus() {
		s.Eventf(corev1.EventTypeWarning, ReasonRemediationRestricted, actionRemediate, "%s", s.restricted)
	}
	return err
}

// result defines how a pass continues after a step.
type result = engine.Result

// steps returns the steps of a health check, in order:
//
//   - paused ends the pass of a check that is paused, or whose Cluster was not read or does not exist;
//   - cluster sets the label and the owner reference of the Cluster;
//   - machines reads the Machines and their Nodes, and judges them;
//   - plan decides about them, and stores the ledger;
//   - remediate writes the conditions of Machines, and creates and deletes requests for external remediation;
//   - status sets the status of the check.
func steps() []engine.Step[*scope] {
	return engine.Standard([]engine.Step[*scope]{
		{Name: "paused", On: engine.InRunning, ObjectOnly: true, Run: func(_ context.Context, s *scope) (result, error) {
			return s.StopIfPaused()
		}},
		{Name: "cluster", On: engine.InRunning, ObjectOnly: true, Run: func(ctx context.Context, s *scope) (result, error) {
			return result{}, s.JoinCluster(ctx)
		}},
		{Name: "machines", On: engine.InRunning, Run: machinesStep},
		{Name: "plan", On: engine.InRunning, Run: planStep},
		{Name: "remediate", On: engine.InRunning, Run: remediateStep},
		{Name: "status", On: engine.InRunning, Closing: true, Run: statusStep},
	})
}
