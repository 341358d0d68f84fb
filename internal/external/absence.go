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

// ConfirmAbsent asks the API server whether an object that is not in the cache is really gone, with one request for its
// metadata. The reader must not read a cache. Use it before anything is destroyed or skipped because an object is gone,
// because a cache may be behind.
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

// ConfirmUID asks the API server whether an object still has this UID, so that it is not a new object with the same
// name. It sends one list request for the metadata, so it needs no right beyond those of a cache. The reader must not
// read a cache.
func ConfirmUID(
	ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName, uid types.UID,
) (bool, error) {
	live, err := liveMetadata(ctx, reader, gvk, key)
	return live != nil && live.UID == uid, err
}

// ConfirmKept asks as ConfirmUID does, and also whether the object is not being deleted: what is made for it would be left.
func ConfirmKept(
	ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName, uid types.UID,
) (bool, error) {
	live, err := liveMetadata(ctx, reader, gvk, key)
	return live != nil && live.UID == uid && live.DeletionTimestamp == nil, err
}

// liveMetadata reads the metadata of an object from the API server, nil when there is none.
func liveMetadata(
	ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, key types.NamespacedName,
) (*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := reader.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	if err != nil {
		return nil, fmt.Errorf("make sure that %s %s is still the same: %w", gvk.Kind, key, err)
	}
	if len(list.Items) != 1 {
		return nil, nil //nolint:nilnil // there is none
	}
	return &list.Items[0], nil
}

// SaysGone reports whether an error means that the object does not exist. A 404 for an API version that is not served
// does not mean that.
func SaysGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// AbsenceRetry is when to look again for an object that the API server has but the cache does not have yet: its event
// will come.
const AbsenceRetry = time.Second
