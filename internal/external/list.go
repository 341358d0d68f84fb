package external

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// List returns the objects of a kind in a namespace that have these labels, by name and as views, and has the kind watched. synced is false
// before its first list has come back. The error for a kind that is not served is one of meta.IsNoMatchError.
func (t *Tracker) List(
	ctx context.Context, gvk schema.GroupVersionKind, namespace string, labels client.MatchingLabels,
) (byName map[string]*unstructured.Unstructured, synced bool, err error) {
	if synced, err = t.Ensure(ctx, ofKind(gvk)); err != nil || !synced {
		return nil, false, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := t.cache.List(ctx, list, client.InNamespace(namespace), labels, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, fmt.Errorf("list %s objects: %w", gvk.Kind, err)
	}
	byName = make(map[string]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].GetName()] = &list.Items[i]
	}
	return byName, true, nil
}
