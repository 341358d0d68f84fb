package machine

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// SetupWithManager adds a Reconciler for Machines of one kind to a manager, before the manager is started. Its Nodes are in the manager's
// own cluster; it drains them, and records events through the manager. It reads no Clusters. To use other parts, such as Clusters or Nodes
// in workload clusters, fill Ports and call New and AddToManager.
//
// The error names missing parts. The required rights are PolicyRules and NodePolicyRules, with Drains and Events.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kind contract.Kind, options Options) (*Reconciler, error) {
	return engine.Setup(ctx, mgr, &options.Recorder, options.withDefaults(kind).Name, func() (*Reconciler, error) {
		ports, err := PortsFromManager(ctx, mgr, options)
		if err != nil {
			return nil, err
		}
		return New(kind, ports, options)
	})
}

// PortsFromManager returns ports for Machines and Nodes of the manager's own cluster. It indexes Nodes by Options.Matching, and uses no
// other option. It adds the drain runner to the manager, which also watches volumes; this costs nothing before the first drain. Reconcilers
// in one manager should share the result and Matching.
func PortsFromManager(ctx context.Context, mgr ctrl.Manager, options Options) (Ports, error) {
	w, err := cluster.WorkloadOptions{Matching: options.Matching}.FromManager(ctx, mgr)
	if err != nil {
		return Ports{}, err
	}
	return Ports{Ports: engine.PortsFromManager(mgr), Workload: w}, nil
}

// AddToManager registers the Reconciler as a controller, with its index and its watches. Call it once, before the manager is started.
//
// A Machine is reconciled when its Node joins, is deleted, replaced or cordoned, and when the Node's labels, annotations, taints,
// addresses, node info or the status of a condition changes.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	missing := r.ports.NodesOf != nil && r.ports.WorkloadEvents == nil // without events no Machine would be reconciled again
	if err := engine.EventsMissing("WorkloadEvents", missing, "Machine", "cluster is connected"); err != nil {
		return err
	}
	return r.frame.AddToManager(ctx, mgr, r, r.IndexMachines, func(b *engine.Builder) {
		b.Watches(engine.NewObject(r.kind), handler.EnqueueRequestsFromMapFunc(r.otherClaimants))
		for _, events := range r.workloads.Sources(ctx) {
			b.WatchesRawSource(events)
		}
		if r.ports.ClusterOf != nil {
			b.Watches(engine.NewObject(r.kind), handler.EnqueueRequestsFromMapFunc(r.besideControlPlane),
				ctrlbuilder.WithPredicates(controlPlaneChanges()))
		}
		if r.options.Metrics != nil {
			type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
			b.WatchesRawSource(source.Func(func(ctx context.Context, _ queue) error {
				context.AfterFunc(ctx, r.options.Metrics.activate(r))
				return nil
			}))
		}
	})
}

// Wiring describes the parts of a Reconciler that need rights. A zero member means that the Reconciler has no such part. If only Kind is
// set, it neither drains nor records events, and its Machines reference no objects.
type Wiring struct {
	// Kind is the kind of the Machines. Its GVK, Resource and StatusSubresource are used.
	Kind contract.Kind
	// Resource is the resource name of the Machines' kind. Default: that of Kind.
	Resource string
	// References are the kinds of infrastructure and bootstrap objects that Machines may reference, as resources; "*" means all resources of
	// a group. Without References, no CustomResourceDefinitions are read for them. Cluster API's providers install ClusterRoles with the
	// label cluster.x-k8s.io/aggregate-to-manager for their kinds; those grant more than a Reconciler needs.
	References []schema.GroupResource
	// Clusters: Ports.ClusterOf is the one of external.Clusters.
	Clusters bool
	// ControlPlanes are the kinds that those Clusters reference as their control planes, as in References. They are only read.
	ControlPlanes []schema.GroupResource
	// Deployments are the resources of MachineDeployments that [Metrics.WatchDeployments] counts.
	Deployments []schema.GroupResource
	// DrainRules: Policy.DrainRules are [MachineDrainRules].
	DrainRules bool
	// Drains: the Reconciler drains Nodes and waits for volumes, as with [SetupWithManager] and cluster.WorkloadOptions.
	Drains bool
	// Events: Options.Recorder is one of a manager, as with [SetupWithManager].
	Events bool
	// OwnerReferencesEnforced: the API server of the Machines has the admission plugin OwnerReferencesPermissionEnforcement, as in
	// OpenShift. It requires the right to finalize an owner that blocks deletion, and the right to delete an object to change its owners.
	OwnerReferencesEnforced bool
}

// PolicyRules returns the rights that a Reconciler needs in the cluster of the Machines. If the Nodes are in the same cluster, it also
// needs [NodePolicyRules] there. If they are in workload clusters, it needs [NodePolicyRules] and cluster.ConnectionPolicyRules in those,
// and the rights of the cluster.Access, such as cluster.PolicyRules, in the cluster of the Machines. The rights are values because
// generators do not read the Kubebuilder markers of a dependency. contract.MergePolicyRules merges them with others.
//
//   - Machines: list, watch and patch, and patch on the status if that is a subresource;
//   - References: list and watch; patch, to own them; delete by UID; get, to confirm that a deleted object is gone;
//   - Clusters: list and watch, and get for the same reason; ControlPlanes, Deployments and MachineDrainRules: list and watch;
//   - CustomResourceDefinitions: list and watch their metadata to look up kinds, and get to confirm that the kind of a reference is gone;
//   - Events: create, and patch for a repeated event.
//
// Leader election needs additional rights on Leases, and your own steps may need others.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	own := engine.PolicyRules(engine.Wiring{
		Own: engine.Resource(w.Kind, w.Resource), StatusSubresource: w.Kind.StatusSubresource, References: w.References, Read: w.ControlPlanes,
		Clusters: w.Clusters, Events: w.Events, OwnerReferencesEnforced: w.OwnerReferencesEnforced,
	})
	for _, deployment := range w.Deployments {
		own = append(own, engine.Rule(deployment, "list", "watch"))
	}
	if w.DrainRules {
		own = append(own, engine.ReadRules(schema.GroupResource{Group: drainRuleGVK.Group, Resource: "machinedrainrules"})...)
	}
	return contract.MergePolicyRules(own)
}

// NodePolicyRules returns the rights that a Reconciler needs in the cluster of the Nodes, which is the cluster of the Machines or a
// workload cluster: to find, label, taint and delete Nodes, to confirm that one is gone, to drain them, and to read the labels of
// Namespaces for MachineDrainRules. Every verb is used; some are used only when a Node does not respond or cannot be found.
func NodePolicyRules(w Wiring) []rbacv1.PolicyRule {
	return cluster.WorkloadPolicyRules(cluster.WorkloadWiring{Writes: true, Drains: w.Drains, Namespaces: w.Drains && w.DrainRules})
}
