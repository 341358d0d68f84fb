package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Mapper returns the objects of a cluster, such as its Machines. It is called from several goroutines. It may read caches and call Get. It
// must not block, because that stops the maintenance of the cluster.
type Mapper func(cluster types.NamespacedName) []reconcile.Request

// Source returns a source for a controller's Watches (builder.WatchesRawSource). It enqueues the requests of mapper when a cluster is
// connected, is lost, has its first lists complete, gets a new connection, is not connected for another reason than before, or is removed.
// Get then returns the new state; several changes may cause one event.
//
// A cluster for which mapper returns a request is in use: it stays connected and its Nodes stay watched, even if no object is reconciled
// for a long time.
func (c *Clusters[T]) Source(mapper Mapper) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		s := &sink{queue: q, mapper: mapper}
		c.sinks.Store(s, nil)
		context.AfterFunc(ctx, func() { c.sinks.Delete(s) })
		return nil
	})
}

type sink struct {
	queue  queue
	mapper Mapper
}

// notify enqueues the requests of all mappers for a cluster. The caller must not hold a lock.
func (c *Clusters[T]) notify(cluster types.NamespacedName) {
	for started := range c.sinks.Range {
		s, _ := started.(*sink)
		for _, request := range s.mapper(cluster) {
			s.queue.Add(request)
		}
	}
}

// named reports whether a mapper returns requests for a cluster.
func (c *Clusters[T]) named(cluster types.NamespacedName) bool {
	for started := range c.sinks.Range {
		if s, _ := started.(*sink); len(s.mapper(cluster)) > 0 {
			return true
		}
	}
	return false
}
