package external

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfirmAbsent asks the API server itself whether an object that a cache does not have is really gone: one request for its
// metadata. The reader must not read a cache. What is destroyed or skipped because an object is gone waits for this, because a
// cache may be behind.
func ConfirmAbsent(ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName) (bool, error) {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	err := reader.Get(ctx, key, obj)
	switch {
	case SaysGone(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("make sure that %s %s is gone: %w", gvk.Kind, key, err)
	}
	return false, nil
}

// ConfirmUID asks the API server itself whether an object is still the one that was read, and not another of its name: one request for
// its metadata, a list, so that it needs no right beyond those of a cache. The reader must not read a cache.
func ConfirmUID(ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName, uid types.UID) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := reader.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		return false, fmt.Errorf("make sure that %s %s is still the same: %w", gvk.Kind, key, err)
	}
	return len(list.Items) == 1 && list.Items[0].UID == uid, nil
}

// SaysGone tells "there is no such object" from "there is no such place": an API version that is not served is answered 404
// too, by a caller that knows nothing about objects.
func SaysGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// AbsenceRetry is when to look again for an object that the cache does not have and the API server does: its event is on the way.
const AbsenceRetry = time.Second
