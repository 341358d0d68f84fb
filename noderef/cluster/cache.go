package cluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nonBlockingCache is a cache whose reads do not wait. Reads of controller-runtime's cache wait for the first list of a
// kind, which never comes if the API server is gone.
type nonBlockingCache struct {
	cache.Cache

	listed func() bool // the first lists of all informers of Setup are complete, and the connection has not ended
}

// Get implements client.Reader; the error matches ErrNotSynced before the first lists are complete.
func (c nonBlockingCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !c.listed() {
		return fmt.Errorf("read %T %s: %w", obj, key, ErrNotSynced)
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}

// List implements client.Reader; the error matches ErrNotSynced before the first lists are complete.
func (c nonBlockingCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !c.listed() {
		return fmt.Errorf("list %T: %w", list, ErrNotSynced)
	}
	return c.Cache.List(ctx, list, opts...)
}
