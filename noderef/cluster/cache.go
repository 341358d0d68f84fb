package cluster

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// nonBlockingCache is a cache whose reads never wait. Reads of controller-runtime's cache wait for the first list of a
// kind, which never comes if the API server is gone.
type nonBlockingCache struct {
	cache.Cache

	scheme *runtime.Scheme
	life   context.Context //nolint:containedctx // the life of the connection

	mu      sync.Mutex
	tracked map[cache.Informer]schema.GroupVersionKind
}

// Get implements client.Reader; the error matches ErrNotSynced before the first lists are complete.
func (c *nonBlockingCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !c.synced() {
		return fmt.Errorf("read %T %s: %w", obj, key, ErrNotSynced)
	}
	return c.Cache.Get(ctx, key, obj, opts...)
}

// List implements client.Reader; the error matches ErrNotSynced before the first lists are complete.
func (c *nonBlockingCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !c.synced() {
		return fmt.Errorf("list %T: %w", list, ErrNotSynced)
	}
	return c.Cache.List(ctx, list, opts...)
}

// GetInformer implements cache.Informers.
func (c *nonBlockingCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if err := c.ensureTracked(ctx, obj); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, obj, opts...)
}

// GetInformerForKind implements cache.Informers.
func (c *nonBlockingCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformerForKind(ctx, gvk, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	c.track(informer, gvk)
	return c.Cache.GetInformerForKind(ctx, gvk, opts...)
}

// IndexField implements client.FieldIndexer.
func (c *nonBlockingCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if err := c.ensureTracked(ctx, obj); err != nil {
		return err
	}
	return c.Cache.IndexField(ctx, obj, field, extract)
}

func (c *nonBlockingCache) ensureTracked(ctx context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return err
	}
	informer, err := c.Cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err == nil {
		c.track(informer, gvk)
	}
	return err
}

func (c *nonBlockingCache) track(informer cache.Informer, gvk schema.GroupVersionKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracked[informer] = gvk
}

// synced reports whether every requested informer has its first list.
func (c *nonBlockingCache) synced() bool {
	if c.life.Err() != nil {
		return false // WaitForCacheSync would also wait for an informer that ended before its first list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for informer := range c.tracked {
		if !informer.HasSynced() && !informer.IsStopped() { // a stopped informer was removed
			return false
		}
	}
	return true
}

// informers returns the requested informers and their kinds.
func (c *nonBlockingCache) informers() map[cache.Informer]schema.GroupVersionKind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.tracked)
}
