package machinepool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/noderef"
)

// indexKeys are the keys under which a pool is found from the events of others.
func indexKeys(state *contract.MachinePoolState, cluster types.NamespacedName, rules noderef.Rules) []string {
	keys := make([]string, 0, len(state.ProviderIDs)+len(state.Nodes)+8)
	keys = append(keys, labelKey(contract.LabelValue(state.Key.Name)), workloadKey(cluster))
	if state.ClusterName != "" {
		keys = append(keys, clusterKey(types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName}))
	}
	for _, ref := range []contract.Ref{state.Template.Bootstrap, state.Template.Infrastructure} {
		if ref.Group != "" && ref.Kind != "" {
			crd := contract.CRDName(ref.GroupKind())
			keys = append(keys, crdKey(crd), refKey(crd, ref.Name))
		}
	}
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

func crdKey(crd string) string       { return "crd:" + crd }
func refKey(crd, name string) string { return "ref:" + crd + "/" + name }

// labelKey is that of the objects which a provider labels with the pool's name.
func labelKey(value string) string { return "label:" + value }

func clusterKey(cluster types.NamespacedName) string { return "cluster:" + cluster.String() }

// workloadKey is that of all pools whose Nodes are in one cluster.
func workloadKey(cluster types.NamespacedName) string { return "workload:" + cluster.String() }

// What a Node is found by names the cluster too: other clusters have Nodes of the same name, and may have the same provider ID.
func instanceKey(cluster types.NamespacedName, id string) string {
	return "id:" + cluster.String() + "/" + id
}
func nodeKey(cluster types.NamespacedName, name string) string {
	return "node:" + cluster.String() + "/" + name
}

func (r *Reconciler) indexName() string { return "machinist." + r.options.Name }

// IndexPools registers the indexes of pools, and of Machines where those are known, with the cache. AddToManager calls it. If you call
// ReconcileObject from your own loop, call it once, before the cache starts.
func (r *Reconciler) IndexPools(ctx context.Context) error {
	err := r.ports.Cache.IndexField(ctx, newObject(r.kinds.Pool), r.indexName(), func(obj client.Object) []string {
		var state contract.MachinePoolState
		if err := r.read(obj, &state); err != nil {
			return nil // the pool itself reports what is wrong with it
		}
		return indexKeys(&state, r.clusterOf(&state), r.options.Matching)
	})
	if err == nil && r.kinds.knowsMachines() {
		err = r.ports.Cache.IndexField(ctx, newObject(r.kinds.Machine), r.indexName(), r.machineKeys)
	}
	if err != nil {
		return fmt.Errorf("index %s objects: %w", r.kinds.Pool.GVK.Kind, err)
	}
	return nil
}

// poolsByKey lists the pools under a key, in one namespace or in all, without those that are others' to look after.
func (r *Reconciler) poolsByKey(ctx context.Context, namespace, key string) []reconcile.Request {
	var requests []reconcile.Request
	_ = r.eachPool(ctx, namespace, key, func(obj client.Object) { // fails only when the cache is stopping
		if r.matchesWatchFilter(obj) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	})
	return requests
}

// eachPool hands over the pools under a key, as views.
func (r *Reconciler) eachPool(ctx context.Context, namespace, key string, do func(client.Object)) error {
	list := newList(r.kinds.Pool)
	err := r.ports.Cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{r.indexName(): key}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list %s objects by %s: %w", r.kinds.Pool.GVK.Kind, key, err)
	}
	return eachObject(list, do)
}

func eachObject(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			do(obj)
		}
		return nil
	})
}

// poolsOf maps an event about a referenced object, about an object that is labelled with a pool's name, or about the CRD of its kind,
// to pools.
func (r *Reconciler) poolsOf(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	gvk := kind.GetObjectKind().GroupVersionKind()
	if gvk == external.CRDGVK() {
		return r.poolsByKey(ctx, "", crdKey(obj.GetName()))
	}
	requests := r.poolsByKey(ctx, obj.GetNamespace(), refKey(contract.CRDName(gvk.GroupKind()), obj.GetName()))
	if name, labelled := obj.GetLabels()[contract.PoolNameLabel]; labelled {
		requests = append(requests, r.poolsByKey(ctx, obj.GetNamespace(), labelKey(name))...)
	}
	return requests
}

// poolOfMachine maps an event about a Machine to the pool that controls it.
func (r *Reconciler) poolOfMachine(_ context.Context, obj client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || owner.Kind != r.kinds.Pool.GVK.Kind || groupOf(owner.APIVersion) != r.kinds.Pool.GVK.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner.Name}}}
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
			for _, request := range r.poolsByKey(ctx, cluster.Namespace, key) {
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
	err := r.eachPool(ctx, cluster.Namespace, workloadKey(cluster), func(obj client.Object) {
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
		if err := c.r.read(obj, &state); err == nil {
			all = append(all, claimOf(&state, node, c.r.options.Matching))
		}
	}
	keys := []string{nodeKey(c.cluster, node.Name)}
	if id := c.r.options.Matching.Key(node.Spec.ProviderID); id != "" {
		keys = append(keys, instanceKey(c.cluster, id))
	}
	for _, key := range keys {
		if err := c.r.eachPool(c.ctx, c.cluster.Namespace, key, add); err != nil {
			c.err = err
		}
	}
	return all
}

// claimOf is what a pool says about one Node.
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
