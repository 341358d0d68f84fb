package cluster

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Mapper names the objects that belong to a cluster, such as its Machines. It is called from several goroutines. It may read
// caches and call Get, and must not wait for anything: the cluster would not be looked after meanwhile.
type Mapper func(cluster types.NamespacedName) []reconcile.Request

// Source returns a source for a controller's Watches (builder.WatchesRawSource). It enqueues what mapper names when a cluster
// is connected, is lost, has its first lists complete, gets a new connection, is not connected for another reason than
// before, or is forgotten. Get then says what there is; several changes may be one wake-up.
//
// A cluster for which mapper names something is in use: its connection is not ended, and its Nodes go on being watched, even
// if no object is reconciled for a long time.
func (c *Clusters[T]) Source(mapper Mapper) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		if mapper == nil {
			return errors.New("clusters: the source has no mapper")
		}
		s := &sink{queue: queue, mapper: mapper}
		c.sinksMu.Lock()
		c.sinks[s] = struct{}{}
		c.sinksMu.Unlock()
		context.AfterFunc(ctx, func() {
			c.sinksMu.Lock()
			defer c.sinksMu.Unlock()
			delete(c.sinks, s)
		})
		return nil
	})
}

// sink is a controller's queue.
type sink struct {
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	mapper Mapper
}

func (c *Clusters[T]) snapshot() []*sink {
	c.sinksMu.RLock()
	defer c.sinksMu.RUnlock()
	sinks := make([]*sink, 0, len(c.sinks))
	for s := range c.sinks {
		sinks = append(sinks, s)
	}
	return sinks
}

// tell wakes everybody whom a cluster concerns. No lock may be held.
func (c *Clusters[T]) tell(cluster types.NamespacedName) {
	for _, s := range c.snapshot() {
		for _, request := range s.mapper(cluster) {
			s.queue.Add(request)
		}
	}
}

// named reports whether a mapper names something for a cluster.
func (c *Clusters[T]) named(cluster types.NamespacedName) bool {
	for _, s := range c.snapshot() {
		if len(s.mapper(cluster)) > 0 {
			return true
		}
	}
	return false
}
