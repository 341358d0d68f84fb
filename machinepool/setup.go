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
// A pool is woken by a Node of its instances when that joins, goes, is replaced or cordoned, and when its labels, annotations, taints or
// the status of one of its conditions change.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	missing := r.ports.NodesOf != nil && r.ports.WorkloadEvents == nil // without events no pool would be reconciled again
	if err := engine.EventsMissing("WorkloadEvents", missing, "MachinePool", "cluster is connected"); err != nil {
		return err
	}
	return r.frame.AddToManager(ctx, mgr, r, r.indexPools, func(b *engine.Builder) {
		if r.kinds.knowsMachines() { // also where only their claims count: nothing waits for their first list then
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

// Wiring says what a Reconciler is made of, as far as that needs rights. What it does not say is not there.
type Wiring struct {
	// Kinds are those of the Reconciler. Their GVKs, Resources and StatusSubresource count, and whether there are Machines.
	Kinds Kinds
	// References are the kinds of infrastructure and bootstrap objects that pools may refer to, and those of the InfraMachines of single
	// instances, as resources; "*" means all of their group.
	References []schema.GroupResource
	// Clusters: Ports.ClusterOf is that of external.Clusters.
	Clusters bool
	// Drains: Nodes are drained and volumes waited for, as [SetupWithManager] and workload.Setup have it.
	Drains bool
	// Events: Options.Recorder is one of a manager, as [SetupWithManager] has it.
	Events bool
	// OwnerReferencesEnforced: the API server of the pools has the admission plugin OwnerReferencesPermissionEnforcement, which lets
	// only those set an owner that blocks deletion who may finalize it, and only those change the owners of an object who may delete it.
	OwnerReferencesEnforced bool
}

// PolicyRules are the rights that a Reconciler needs where the pools are. If the Nodes are there too, it needs [NodePolicyRules]
// besides; if they are in workload clusters, it needs those there, and here those of the cluster.Access. contract.MergePolicyRules
// joins them with others.
//
//   - pools: list, watch and patch, and patch on the status if that is a subresource;
//   - References: list and watch; patch, to own them; delete by UID; get, to make sure that one which is to be gone is;
//   - Machines: list, watch, create, patch, delete by UID; get, to tell one of the pool from another of its name;
//   - Clusters: list, watch and get; CustomResourceDefinitions: list, watch and get;
//   - Events: create, and patch when one comes again.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	shared := engine.Wiring{
		Own: w.Kinds.Pool.GroupResource(), StatusSubresource: w.Kinds.Pool.StatusSubresource, References: w.References,
		Clusters: w.Clusters, Events: w.Events, OwnerReferencesEnforced: w.OwnerReferencesEnforced,
	}
	if w.Kinds.knowsMachines() {
		shared.Children = []schema.GroupResource{w.Kinds.Machine.GroupResource()}
	}
	return engine.PolicyRules(shared)
}

// NodePolicyRules are the rights that a Reconciler needs where the Nodes are, be that the cluster of the pools or a workload cluster: to
// find, make sure of, label, taint, cordon and delete Nodes, to drain them, and to wait for their volumes.
func NodePolicyRules(w Wiring) []rbacv1.PolicyRule {
	return cluster.WorkloadPolicyRules(cluster.WorkloadWiring{Writes: true, Drains: w.Drains})
}
