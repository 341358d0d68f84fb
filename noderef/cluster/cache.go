package cluster

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// promptCache is a cache whose reads never wait. controller-runtime's wait for the first list of a kind, which of an API
// server that has gone does not come.
type promptCache struct {
	cache.Cache

	life      context.Context //nolint:containedctx // the life of the connection
	mu        sync.Mutex
	informers []cache.Informer // those that are not known to have synced
}

// Get implements client.Reader; the error matches ErrNotSynced before the first lists are complete.
func (c *promptCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !c.synced() {
		return fmt.Errorf("read %T %s: %w", obj, key, ErrNotSynced)
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}

// List implements client.Reader; the error matches ErrNotSynced before the first lists are complete.
func (c *promptCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !c.synced() {
		return fmt.Errorf("list %T: %w", list, ErrNotSynced)
	}
	return c.Cache.List(ctx, list, opts...)
}

// GetInformer implements cache.Informers.
func (c *promptCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if err := c.note(c.Cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, obj, opts...)
}

// GetInformerForKind implements cache.Informers.
func (c *promptCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if err := c.note(c.Cache.GetInformerForKind(ctx, gvk, cache.BlockUntilSynced(false))); err != nil {
		return nil, err
	}
	return c.Cache.GetInformerForKind(ctx, gvk, opts...)
}

// IndexField implements client.FieldIndexer.
func (c *promptCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if err := c.note(c.Cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))); err != nil {
		return err
	}
	return c.Cache.IndexField(ctx, obj, field, extract)
}

func (c *promptCache) note(informer cache.Informer, err error) error {
	if err != nil || informer.HasSynced() {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.informers = append(c.informers, informer)
	return nil
}

// synced reports whether every informer that was asked for has its first list. Informers do not lose it again.
func (c *promptCache) synced() bool {
	if c.life.Err() != nil {
		return false // an informer that has ended before its first list would be waited for, too
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.informers) > 0 {
		last := c.informers[len(c.informers)-1]
		if removed := last.IsStopped(); !last.HasSynced() && !removed {
			return false
		}
		c.informers = c.informers[:len(c.informers)-1]
	}
	return true
}
