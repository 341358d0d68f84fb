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

// promptCache is a cache whose reads never wait. controller-runtime's wait for the first list of a kind, which of an API
// server that has gone does not come.
type promptCache struct {
	cache.Cache

	scheme *runtime.Scheme
	life   context.Context //nolint:containedctx // the life of the connection

	mu       sync.Mutex
	followed []followed // of each kind one, in the order of the first requests
}

// followed is one informer of a cache.
type followed struct {
	kind     informedKind
	informer cache.Informer
	synced   bool // for good
}

// informedKind tells the informers of one kind apart: those of its Go type, of its metadata and of unstructured objects.
type informedKind struct {
	schema.GroupVersionKind

	as reflect.Type
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
	if err := c.follow(ctx, obj); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, obj, opts...)
}

// GetInformerForKind implements cache.Informers.
func (c *promptCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformerForKind(ctx, gvk, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	c.note(informedKind{GroupVersionKind: gvk}, informer)
	return c.Cache.GetInformerForKind(ctx, gvk, opts...)
}

// IndexField implements client.FieldIndexer.
func (c *promptCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if err := c.follow(ctx, obj); err != nil {
		return err
	}
	return c.Cache.IndexField(ctx, obj, field, extract)
}

func (c *promptCache) follow(ctx context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return err
	}
	informer, err := c.Cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err == nil {
		c.note(informedKind{gvk, reflect.TypeOf(obj)}, informer)
	}
	return err
}

// note remembers an informer in place of the one before it, which was removed if it is another one.
func (c *promptCache) note(kind informedKind, informer cache.Informer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := followed{kind: kind, informer: informer, synced: informer.HasSynced()}
	if at := slices.IndexFunc(c.followed, func(f followed) bool { return f.kind == kind }); at >= 0 {
		c.followed[at] = f
	} else {
		c.followed = append(c.followed, f)
	}
}

// synced reports whether every informer that was asked for has its first list. Informers do not lose it again.
func (c *promptCache) synced() bool {
	if c.life.Err() != nil {
		return false // an informer that has ended before its first list would be waited for, too
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.followed {
		f := &c.followed[i]
		if f.synced = f.synced || f.informer.HasSynced() || f.informer.IsStopped(); !f.synced { // stopped: it was removed
			return false
		}
	}
	return true
}

// following returns the informers of the cache.
func (c *promptCache) following() []followed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.followed)
}
