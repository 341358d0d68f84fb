package machinepool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/noderef"
)

// indexKeys returns the keys under which events of other objects find a pool.
func indexKeys(state *contract.MachinePoolState, cluster types.NamespacedName, rules noderef.Rules) []string {
	keys := make([]string, 0, len(state.ProviderIDs)+len(state.Nodes)+8)
	keys = append(keys, labelKey(contract.LabelValue(state.Key.Name)), workloadKey(cluster))
	of := types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName}
	keys = append(keys, pass.ReferenceKeys(of, state.Template.Bootstrap, state.Template.Infrastructure)...)
	for _, id := range state.ProviderIDs {
		if key := rules.Key(id); key != "" {
			keys = append(keys, instanceKey(cluster, key))
		}
	}
	for _, node := range state.Nodes {
		keys = append(keys, nodeKey(cluster, node.Name))
	}
	return keys
}

// labelKey is that of the objects which a provider labels with the pool's name.
func labelKey(value string) string { return "label:" + value }

// workloadKey is that of all pools whose Nodes are in one cluster.
func workloadKey(cluster types.NamespacedName) string { return "workload:" + cluster.String() }

// What a Node is found by names the cluster too: other clusters have Nodes of the same name, and may have the same provider ID.
func instanceKey(cluster types.NamespacedName, id string) string {
	return "id:" + cluster.String() + "/" + id
}

func nodeKey(cluster types.NamespacedName, name string) string {
	return "node:" + cluster.String() + "/" + name
}

// nodeKeys returns the keys of a Node.
func nodeKeys(cluster types.NamespacedName, node *corev1.Node, rules noderef.Rules) []string {
	keys := []string{nodeKey(cluster, node.Name)}
	if id := rules.Key(node.Spec.ProviderID); id != "" {
		keys = append(keys, instanceKey(cluster, id))
	}
	return keys
}

// IndexPools registers the indexes of pools, and of Machines where those are known, with the cache. AddToManager calls it. If you call
// ReconcileObject from your own loop, call it once, before the cache starts.
func (r *Reconciler) IndexPools(ctx context.Context) error {
	err := r.frame.Index(ctx, func(state *contract.MachinePoolState) []string {
		return indexKeys(state, r.clusterOf(state), r.options.Matching)
	})
	if err == nil && r.kinds.knowsMachines() {
		err = r.frame.IndexOther(ctx, pass.NewObject(r.kinds.Machine), r.kinds.Machine.GVK.Kind, r.machineKeys)
	}
	return err
}

// poolsOf maps an event about a referenced object, about an object that is labelled with a pool's name, or about the CRD of its kind,
// to pools.
func (r *Reconciler) poolsOf(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	requests := r.frame.Referring(ctx, kind, obj)
	if kind.GetObjectKind().GroupVersionKind() == external.CRDGVK() {
		return requests
	}
	if name, labelled := obj.GetLabels()[contract.PoolNameLabel]; labelled {
		requests = append(requests, r.frame.ByKey(ctx, obj.GetNamespace(), labelKey(name))...)
	}
	return requests
}

// poolsOfNode maps an event about a Node to the pools of its cluster that list its instance, or had it recorded by name.
func (r *Reconciler) poolsOfNode(ctx context.Context, cluster types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request {
	var keys []string
	for _, node := range nodes {
		if node != nil {
			keys = append(keys, nodeKeys(cluster, node, r.options.Matching)...)
		}
	}
	return r.frame.ByKeys(ctx, cluster.Namespace, keys...)
}
