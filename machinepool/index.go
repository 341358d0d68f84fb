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
	var requests []reconcile.Request
	seen := map[reconcile.Request]bool{}
	for _, node := range nodes {
		if node == nil {
			continue
		}
		keys := []string{nodeKey(cluster, node.Name)}
		if id := r.options.Matching.Key(node.Spec.ProviderID); id != "" {
			keys = append(keys, instanceKey(cluster, id))
		}
		for _, key := range keys {
			for _, request := range r.frame.ByKey(ctx, cluster.Namespace, key) {
				if !seen[request] {
					seen[request] = true
					requests = append(requests, request)
				}
			}
		}
	}
	return requests
}

// claims are those of the other pools of a cluster. It implements noderef.Claims.
type claims struct {
	ctx     context.Context //nolint:containedctx // lives for one call of Resolve
	r       *Reconciler
	cluster types.NamespacedName
	self    types.NamespacedName
	err     error
}

// claimsIn returns the claims of other pools on the Nodes of a cluster, nil when there are no other pools.
func (r *Reconciler) claimsIn(ctx context.Context, cluster, self types.NamespacedName) (*claims, error) {
	others := 0
	err := r.frame.Each(ctx, cluster.Namespace, workloadKey(cluster), func(obj client.Object) {
		if client.ObjectKeyFromObject(obj) != self {
			others++
		}
	})
	if err != nil || others == 0 {
		return nil, err
	}
	return &claims{ctx: ctx, r: r, cluster: cluster, self: self}, nil
}

// failed is why not all claims are known, nil when they are.
func (c *claims) failed() error {
	if c == nil {
		return nil
	}
	return c.err
}

// ClaimsOn implements noderef.Claims.
func (c *claims) ClaimsOn(node *corev1.Node) []noderef.Identity {
	var all []noderef.Identity
	seen := map[types.NamespacedName]bool{c.self: true}
	add := func(obj client.Object) {
		key := client.ObjectKeyFromObject(obj)
		if seen[key] {
			return
		}
		seen[key] = true
		var state contract.MachinePoolState
		if err := c.r.frame.Read(obj, &state); err == nil {
			all = append(all, claimOf(&state, node, c.r.options.Matching))
		}
	}
	keys := []string{nodeKey(c.cluster, node.Name)}
	if id := c.r.options.Matching.Key(node.Spec.ProviderID); id != "" {
		keys = append(keys, instanceKey(c.cluster, id))
	}
	for _, key := range keys {
		if err := c.r.frame.Each(c.ctx, c.cluster.Namespace, key, add); err != nil {
			c.err = err
		}
	}
	return all
}

// claimOf returns the claim of a pool on one Node.
func claimOf(state *contract.MachinePoolState, node *corev1.Node, rules noderef.Rules) noderef.Identity {
	identity := noderef.Identity{Machine: state.Key}
	for _, id := range state.ProviderIDs {
		if rules.Same(id, node.Spec.ProviderID) {
			identity.ProviderID = id
		}
	}
	for _, ref := range state.Nodes {
		if ref.Name == node.Name {
			identity.Current = noderef.Ref{Name: ref.Name, UID: ref.UID}
		}
	}
	return identity
}
