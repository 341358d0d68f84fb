package machinepool

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// SetupWithManager adds a Reconciler for pools to a manager, before the manager is started. Its Nodes are those of the manager's own
// cluster; it drains them, and records events through the manager. It reads no Clusters. To use other parts, such as Clusters or Nodes in
// workload clusters, fill Ports and call New and AddToManager. The required rights are PolicyRules and NodePolicyRules.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kinds Kinds, options Options) (*Reconciler, error) {
	return engine.Setup(ctx, mgr, &options.Recorder, options.withDefaults(kinds.Pool).Name, func() (*Reconciler, error) {
		w, err := cluster.WorkloadOptions{Matching: options.Matching}.FromManager(ctx, mgr)
		if err != nil {
			return nil, err
		}
		return New(kinds, Ports{Ports: engine.PortsFromManager(mgr), Workload: w}, options)
	})
}

// AddToManager registers the Reconciler as a controller, with its index and its watches. Call it once, before the manager is started.
//
// A pool is reconciled when a Node of its instances joins, is deleted, replaced or cordoned, and when the Node's labels, annotations,
// taints or the status of a condition change.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	missing := r.ports.NodesOf != nil && r.ports.WorkloadEvents == nil // without events no pool would be reconciled again
	if err := engine.EventsMissing("WorkloadEvents", missing, "MachinePool", "cluster is connected"); err != nil {
		return err
	}
	return r.frame.AddToManager(ctx, mgr, r, r.indexPools, func(b *engine.Builder) {
		if r.kinds.hasMachines() { // even if only their claims count: then nothing waits for their first list
			b.Watches(engine.NewObject(r.kinds.Machine), handler.EnqueueRequestsFromMapFunc(r.poolsOfMachine))
		}
		for _, events := range r.workloads.Sources(ctx) {
			b.WatchesRawSource(events)
		}
	})
}

// poolsOfMachine maps an event about a Machine to the pool that controls it, and to the one that may adopt it.
func (r *Reconciler) poolsOfMachine(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.frame.ControllerOf(obj), r.labelled(ctx, obj)...)
}

// Wiring describes the parts of a Reconciler that need rights. A zero member means that there is no such part.
type Wiring struct {
	// Kinds are the kinds of the Reconciler. Their GVKs, Resources and StatusSubresource are used, and whether there are Machines.
	Kinds Kinds
	// References are the kinds of infrastructure and bootstrap objects that pools may reference, and those of the InfraMachines of single
	// instances, as resources; "*" means all resources of a group.
	References []schema.GroupResource
	// Clusters: Ports.ClusterOf is the one of external.Clusters.
	Clusters bool
	// Drains: Nodes are drained and volumes waited for, as with [SetupWithManager] and cluster.WorkloadOptions.
	Drains bool
	// Events: Options.Recorder is one of a manager, as with [SetupWithManager].
	Events bool
	// OwnerReferencesEnforced: the API server of the pools has the admission plugin OwnerReferencesPermissionEnforcement. It requires the
	// right to finalize an owner that blocks deletion, and the right to delete an object to change its owners.
	OwnerReferencesEnforced bool
}

// PolicyRules returns the rights that a Reconciler needs in the cluster of the pools. If the Nodes are in the same cluster, it also needs
// [NodePolicyRules]; if they are in workload clusters, it needs those there, and the rights of the cluster.Access here.
// contract.MergePolicyRules merges them with others.
//
//   - pools: list, watch and patch, and patch on the status if that is a subresource;
//   - References: list and watch; patch, to own them; delete by UID; get, to confirm that a deleted object is gone;
//   - Machines: list, watch, create, patch, delete by UID; get, to check the owner of a Machine with the same name;
//   - Clusters: list, watch and get; CustomResourceDefinitions: list, watch and get;
//   - Events: create, and patch for a repeated event.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	shared := engine.Wiring{
		Own: w.Kinds.Pool.GroupResource(), StatusSubresource: w.Kinds.Pool.StatusSubresource, References: w.References,
		Clusters: w.Clusters, Events: w.Events, OwnerReferencesEnforced: w.OwnerReferencesEnforced,
	}
	if w.Kinds.hasMachines() {
		shared.Children = []schema.GroupResource{w.Kinds.Machine.GroupResource()}
	}
	return engine.PolicyRules(shared)
}

// NodePolicyRules returns the rights that a Reconciler needs in the cluster of the Nodes, that of the pools or a workload cluster: to find,
// confirm, label, taint, cordon and delete Nodes, to drain them, and to wait for their volumes.
func NodePolicyRules(w Wiring) []rbacv1.PolicyRule {
	return cluster.WorkloadPolicyRules(cluster.WorkloadWiring{Writes: true, Drains: w.Drains})
}
