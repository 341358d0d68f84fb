package remediation

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// SetupWithManager adds a Reconciler to a manager, before the manager is started. w is the access to Nodes, which it shares with the
// reconciler of Machines. It reads no Clusters: to use them, or Nodes of workload clusters, fill Ports and call New and AddToManager. The
// required rights are PolicyRules, and cluster.WorkloadPolicyRules in the cluster of the Nodes.
func SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, kinds contract.Kinds, w cluster.Workload, options Options,
) (*Reconciler, error) {
	return engine.Setup(ctx, mgr, &options.Recorder, options.withDefaults(kinds.Check).Name, func() (*Reconciler, error) {
		return New(kinds, Ports{Ports: engine.PortsFromManager(mgr), Workload: w}, options)
	})
}

// AddToManager registers the Reconciler as a controller, with its index and its watches. Call it once, before the manager is started.
//
// A check is reconciled when a Machine, another check, a template or a request of its namespace is created, changed or deleted, when the
// status of a condition of a Node of its cluster changes, and when a limit is reached.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := engine.EventsMissing("WorkloadEvents", r.ports.NodesOf != nil && r.ports.WorkloadEvents == nil, r.kinds.Check.GVK.Kind,
		"Nodes change"); err != nil {
		return err
	}
	beside := func(ctx context.Context, obj client.Object) []reconcile.Request {
		return r.frame.ByKey(ctx, obj.GetNamespace(), "")
	}
	return r.frame.AddToManager(ctx, mgr, r, r.Index, func(b *engine.Builder) {
		b.Watches(engine.NewObject(r.kinds.Machine), handler.EnqueueRequestsFromMapFunc(beside)).
			Watches(engine.NewObject(r.kinds.Check), handler.EnqueueRequestsFromMapFunc(beside))
		for _, nodes := range r.workloads.Sources(ctx) {
			b.WatchesRawSource(nodes)
		}
	})
}

// Index registers the index of checks with the cache. AddToManager calls it.
func (r *Reconciler) Index(ctx context.Context) error {
	return r.frame.Index(ctx, func(check *contract.HealthCheckState) []string {
		return engine.ReferenceKeys(contract.CommonOf(check))
	})
}

// Wiring describes the parts of a Reconciler that need rights. A zero member means that there is no such part.
type Wiring struct {
	// Kinds are the kinds of the Reconciler. Their GVKs, Resources and StatusSubresource are used.
	Kinds contract.Kinds
	// Templates are the kinds of remediation templates that checks may reference, as resources; Requests are the kinds created from them.
	Templates, Requests []schema.GroupResource
	// Clusters: Ports.ClusterOf is the one of external.Clusters.
	Clusters bool
	// Events: Options.Recorder is one of a manager, as with SetupWithManager.
	Events bool
	// OwnerReferencesEnforced: the API server has the admission plugin OwnerReferencesPermissionEnforcement, as in OpenShift.
	OwnerReferencesEnforced bool
}

// PolicyRules returns the rights that a Reconciler needs in the cluster of the checks:
//
//   - checks: list, watch, patch, and patch on the status if that is a subresource;
//   - Machines: list and watch, and patch on the status, or on the Machine if that is no subresource;
//   - Templates: list and watch; Requests: list, watch, create, and delete by UID;
//   - Clusters: list, watch and get; Events: create, and patch for a repeated event.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	machines := w.Kinds.Machine.GroupResource()
	written := machines
	if w.Kinds.Machine.StatusSubresource {
		written.Resource += "/status"
	}
	rules := append(engine.PolicyRules(engine.Wiring{
		Own: w.Kinds.Check.GroupResource(), StatusSubresource: w.Kinds.Check.StatusSubresource, Clusters: w.Clusters, Events: w.Events,
		OwnerReferencesEnforced: w.OwnerReferencesEnforced,
	}), engine.Rule(machines, "list", "watch"), engine.Rule(written, "patch"))
	for _, template := range w.Templates {
		rules = append(rules, engine.Rule(template, "list", "watch"))
	}
	for _, request := range w.Requests {
		rules = append(rules, engine.Rule(request, "list", "watch", "create", "delete"))
	}
	return contract.MergePolicyRules(rules)
}
