package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
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
	tracked []trackedInformer // one per kind, in the order of the first requests
}

// trackedInformer is one informer of a cache.
type trackedInformer struct {
	kind     informedKind
	informer cache.Informer
	synced   bool // never reset
}

// informedKind distinguishes the informers of one kind: for its Go type, for its metadata and for unstructured objects.
type informedKind struct {
	schema.GroupVersionKind

	as reflect.Type
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
	c.track(informedKind{GroupVersionKind: gvk}, informer)
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
		c.track(informedKind{gvk, reflect.TypeOf(obj)}, informer)
	}
	return err
}

// track remembers an informer. It replaces an earlier one of the same kind, which was removed.
func (c *nonBlockingCache) track(kind informedKind, informer cache.Informer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := trackedInformer{kind: kind, informer: informer, synced: informer.HasSynced()}
	if at := slices.IndexFunc(c.tracked, func(f trackedInformer) bool { return f.kind == kind }); at >= 0 {
		c.tracked[at] = f
	} else {
		c.tracked = append(c.tracked, f)
	}
}

// synced reports whether every requested informer has its first list. An informer does not become unsynced again.
func (c *nonBlockingCache) synced() bool {
	if c.life.Err() != nil {
		return false // WaitForCacheSync would also wait for an informer that ended before its first list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.tracked {
		f := &c.tracked[i]
		if f.synced = f.synced || f.informer.HasSynced() || f.informer.IsStopped(); !f.synced { // a stopped informer was removed
			return false
		}
	}
	return true
}

// trackedInformers returns the informers of the cache.
func (c *nonBlockingCache) trackedInformers() []trackedInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tracked)
}
