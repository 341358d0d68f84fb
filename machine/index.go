package machine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
)

// indexKeys returns the keys under which events of other objects find a Machine.
func indexKeys(state *contract.MachineState, cluster types.NamespacedName, rules noderef.Rules) []string {
	keys := engine.ReferenceKeys(contract.CommonOf(state), state.Bootstrap, state.Infrastructure)
	if _, member := state.Labels[contract.ControlPlaneLabel]; member && state.ClusterName != "" {
		keys = append(keys, controlPlaneKey(types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName}))
	}
	if !state.Deleting.IsZero() {
		keys = append(keys, deletingKey)
	}
	keys = append(keys, tokenKey(string(state.UID)))
	return append(keys, engine.NodeKeys(cluster, state.ProviderID, state.Node.Name, rules)...)
}

// tokenKey is the key of the Machine that an instance was made for, even if the Machine has no provider ID or another one.
func tokenKey(token string) string { return "token:" + token }

// deletingKey is the key of the Machines in deletion: their decisions depend on objects that they do not reference.
const deletingKey = "deleting"

func controlPlaneKey(cluster types.NamespacedName) string { return "controlplane:" + cluster.String() }

// IndexMachines registers the index of Machines with the cache. AddToManager calls it. If you call ReconcileObject from your own loop,
// call it once, before the cache starts. Without it, Machines that claim the same Node do not detect each other.
func (r *Reconciler) IndexMachines(ctx context.Context) error {
	r.indexed = true
	return r.frame.IndexOther(ctx, engine.NewObject(r.kind), r.kind.GVK.Kind, r.keysOf)
}

// keysOf returns the keys of a Machine. A Machine that cannot be read has only the key of the provider ID that was read before the error;
// its own pass reports the error.
func (r *Reconciler) keysOf(obj client.Object) []string {
	var state contract.MachineState
	if err := r.kind.Adapter.Read(obj, &state); err != nil {
		return engine.NodeKeys(types.NamespacedName{}, state.ProviderID, "", r.options.Matching)
	}
	return indexKeys(&state, r.clusterOf(&state), r.options.Matching)
}

// machinesByKeys lists the Machines of a cluster under any of several keys of a Node, without those that the watch filter excludes. A
// Machine that cannot be read may be of the cluster. Duplicates are left to the queue.
func (r *Reconciler) machinesByKeys(ctx context.Context, cluster types.NamespacedName, keys []string) []reconcile.Request {
	var requests []reconcile.Request
	for _, key := range keys {
		_ = r.frame.Each(ctx, cluster.Namespace, key, func(obj client.Object) { // fails only when the cache is stopping
			var state contract.MachineState
			mayBe := r.kind.Adapter.Read(obj, &state) != nil || r.clusterOf(&state) == cluster
			if mayBe && r.frame.MatchesWatchFilter(obj) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
			}
		})
	}
	return requests
}

// machinesOf maps an event about a referenced object, or about the CRD of its kind, to Machines. An object or kind that no Machine
// references may be a control plane, on which Machines in deletion depend.
func (r *Reconciler) machinesOf(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	if requests := r.frame.Referring(ctx, kind, obj); len(requests) > 0 {
		return requests
	}
	return r.frame.ByKey(ctx, obj.GetNamespace(), deletingKey)
}

// machinesOfNode maps an event about a Node to the Machines of its cluster that have its provider ID or have recorded its name.
func (r *Reconciler) machinesOfNode(ctx context.Context, cluster types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request {
	keys := make([]string, 0, 2*len(nodes))
	for _, node := range nodes {
		if node != nil {
			keys = append(keys, engine.NodeKeys(cluster, node.Spec.ProviderID, node.Name, r.options.Matching)...)
		}
	}
	return r.machinesByKeys(ctx, cluster, keys)
}
