package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Mapper returns the objects of a cluster, such as its Machines. It is called from several goroutines. It may read
// caches and call Get. It must not block, because the cluster is not maintained meanwhile.
type Mapper func(cluster types.NamespacedName) []reconcile.Request

// Source returns a source for a controller's Watches (builder.WatchesRawSource). It enqueues the requests of mapper
// when a cluster is connected, is lost, has its first lists complete, gets a new connection, is not connected for
// another reason than before, or is forgotten. Get then returns the new state; several changes may cause one event.
//
// A cluster for which mapper returns a request is in use: it stays connected and its Nodes stay watched, even if no
// object is reconciled for a long time.
func (c *Clusters[T]) Source(mapper Mapper) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
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

// tell enqueues the requests of all mappers for a cluster. The caller must not hold a lock.
func (c *Clusters[T]) tell(cluster types.NamespacedName) {
	for _, s := range c.snapshot() {
		for _, request := range s.mapper(cluster) {
			s.queue.Add(request)
		}
	}
}

// named reports whether a mapper returns requests for a cluster.
func (c *Clusters[T]) named(cluster types.NamespacedName) bool {
	for _, s := range c.snapshot() {
		if len(s.mapper(cluster)) > 0 {
			return true
		}
	}
	return false
}
