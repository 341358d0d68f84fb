package machine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// indexKeys are the keys under which a Machine is found from the events of others.
func indexKeys(state *contract.MachineState) []string {
	var keys []string
	for _, ref := range []contract.Ref{state.Bootstrap, state.Infrastructure} {
		if ref.Group != "" && ref.Kind != "" {
			crd := contract.CRDName(ref.GroupKind())
			keys = append(keys, crdKey(crd), refKey(crd, ref.Name))
		}
	}
	if state.ProviderID != "" {
		keys = append(keys, providerIDKey(state.ProviderID))
	}
	if state.Node.Name != "" {
		keys = append(keys, nodeKey(state.Node.Name))
	}
	return keys
}

func crdKey(crd string) string       { return "crd:" + crd }
func refKey(crd, name string) string { return "ref:" + crd + "/" + name }
func providerIDKey(id string) string { return "id:" + id }
func nodeKey(name string) string     { return "node:" + name }

func (r *Reconciler) indexName() string { return "machinist." + r.options.Name }

// index registers the Machine index with the cache, once.
func (r *Reconciler) index(ctx context.Context) error {
	return r.ports.Cache.IndexField(ctx, r.newObject(), r.indexName(), func(obj client.Object) []string {
		var state contract.MachineState
		if err := r.kind.Adapter.Read(obj, &state); err != nil {
			return nil // the Machine itself reports what is wrong with it
		}
		return indexKeys(&state)
	})
}

// machinesByKey lists the Machines under a key, in one namespace or in all.
func (r *Reconciler) machinesByKey(ctx context.Context, namespace, key string) []reconcile.Request {
	list, ok := r.kind.NewList().(client.ObjectList)
	if !ok {
		return nil
	}
	err := r.ports.Cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{r.indexName(): key},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil // only when the cache is stopping
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	return requests
}

// machinesOf maps an event about a referenced object, or about the CRD of its kind, to Machines.
func (r *Reconciler) machinesOf(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	gvk := kind.GetObjectKind().GroupVersionKind()
	if gvk == crdGVK {
		return r.machinesByKey(ctx, "", crdKey(obj.GetName()))
	}
	return r.machinesByKey(ctx, obj.GetNamespace(), refKey(contract.CRDName(gvk.GroupKind()), obj.GetName()))
}

// machinesOfNode maps an event about a Node to the Machines that carry its provider ID, or had it recorded by name.
func (r *Reconciler) machinesOfNode(ctx context.Context, nodes ...*corev1.Node) []reconcile.Request {
	var requests []reconcile.Request
	seen := map[reconcile.Request]bool{}
	for _, node := range nodes {
		if node == nil {
			continue
		}
		keys := []string{nodeKey(node.Name)}
		if node.Spec.ProviderID != "" {
			keys = append(keys, providerIDKey(node.Spec.ProviderID))
		}
		for _, key := range keys {
			for _, request := range r.machinesByKey(ctx, "", key) {
				if !seen[request] {
					seen[request] = true
					requests = append(requests, request)
				}
			}
		}
	}
	return requests
}
