package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// Keys of the index under which events of other objects find an object.

// CRDKey is the key of the objects that reference an object of a CRD's kind.
func CRDKey(crd string) string { return "crd:" + crd }

// RefKey is the key of the objects that reference an object by kind and name. It has no namespace: references stay in their namespace.
func RefKey(crd, name string) string { return "ref:" + crd + "/" + name }

// clusterKey is the key of the objects of a Cluster.
func clusterKey(cluster types.NamespacedName) string { return "cluster:" + cluster.String() }

// ReferenceKeys returns the keys of an object's Cluster and references.
func ReferenceKeys(of contract.Common, refs ...contract.Ref) []string {
	var keys []string
	if of.ClusterName != "" {
		keys = append(keys, clusterKey(types.NamespacedName{Namespace: of.Key.Namespace, Name: of.ClusterName}))
	}
	for _, ref := range refs {
		if ref.Group != "" && ref.Kind != "" {
			crd := contract.CRDName(ref.GroupKind())
			keys = append(keys, CRDKey(crd), RefKey(crd, ref.Name))
		}
	}
	return keys
}

// ProviderIDKey is the key of the objects with a provider ID, by noderef.Rules.Key. It has no cluster, because the owner of an instance may
// be copied into another one; code that looks for a Node compares the cluster.
func ProviderIDKey(id string) string { return "id:" + id }

// NodeKeys returns the keys of the Node with a provider ID and a name, none for an invalid ID and for an empty name. The key of the name
// includes the cluster, because other clusters have Nodes of the same name.
func NodeKeys(cluster types.NamespacedName, id, name string, rules noderef.Rules) (keys []string) {
	if key := rules.Key(id); key != "" {
		keys = append(keys, ProviderIDKey(key))
	}
	if name != "" {
		keys = append(keys, "node:"+cluster.String()+"/"+name)
	}
	return keys
}

// NodeTaints returns the taints of a Machine, or of a template, as taints of a Node.
func NodeTaints(all []contract.Taint) []propagate.Taint {
	taints := make([]propagate.Taint, 0, len(all))
	for _, t := range all {
		taints = append(taints, propagate.Taint{
			Taint:       corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)},
			Propagation: propagate.Propagation(t.Propagation),
		})
	}
	return taints
}

// IndexName is the name of the index in the cache.
func (f *Frame[S, U]) IndexName() string { return "machinist." + f.Options.Name }

// Index registers the index of objects of the kind with the cache. An object that cannot be read has no keys; its own pass reports the
// error.
func (f *Frame[S, U]) Index(ctx context.Context, keys func(*S) []string) error {
	return f.IndexOther(ctx, NewObject(f.Kind), f.Kind.GVK.Kind, func(obj client.Object) []string {
		var state S
		if f.Read(obj, &state) != nil {
			return nil
		}
		return keys(&state)
	})
}

// IndexOther registers the index of objects of another kind under the same name.
func (f *Frame[S, U]) IndexOther(ctx context.Context, obj client.Object, kind string, keys client.IndexerFunc) error {
	if err := f.Ports.Cache.IndexField(ctx, obj, f.IndexName(), keys); err != nil {
		return fmt.Errorf("index %s objects (their CRD or Go type must be known, and Options.Name %q unique): %w", kind, f.Options.Name, err)
	}
	return nil
}

// Each passes each object under a key to a function, as a view. The empty namespace means all namespaces, and the empty key all objects.
func (f *Frame[S, U]) Each(ctx context.Context, namespace, key string, do func(client.Object)) error {
	list := NewList(f.Kind)
	options := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
	if key != "" {
		options = append(options, client.MatchingFields{f.IndexName(): key})
	}
	if err := f.Ports.Cache.List(ctx, list, options...); err != nil {
		return fmt.Errorf("list %s objects by %s: %w", f.Kind.GVK.Kind, key, err)
	}
	return EachObject(list, do)
}

// ByKey lists the objects under a key, without those that the watch filter excludes.
func (f *Frame[S, U]) ByKey(ctx context.Context, namespace, key string) []reconcile.Request {
	var requests []reconcile.Request
	_ = f.Each(ctx, namespace, key, func(obj client.Object) { // fails only when the cache is stopping
		if f.MatchesWatchFilter(obj) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	})
	return requests
}

// InCluster lists the objects of a Cluster, without those that the watch filter excludes.
func (f *Frame[S, U]) InCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	return f.ByKey(ctx, cluster.Namespace, clusterKey(cluster))
}

// Referring maps an event about a referenced object, or about the CRD of its kind, to the objects that reference it.
func (f *Frame[S, U]) Referring(ctx context.Context, kind, obj client.Object) []reconcile.Request {
	gvk := kind.GetObjectKind().GroupVersionKind()
	key := RefKey(contract.CRDName(gvk.GroupKind()), obj.GetName())
	if gvk == external.CRDGVK() {
		key = CRDKey(obj.GetName())
	}
	return f.ByKey(ctx, obj.GetNamespace(), key)
}

// EachObject passes each object of a list to a function.
func EachObject(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			do(obj)
		}
		return nil
	})
}
