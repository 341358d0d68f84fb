package external

import (
	"context"
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
)

// clusterSink is the queue of a controller.
type clusterSink struct {
	ctx    context.Context //nolint:containedctx // the life of the source: events have no context of their own
	queue  queue
	mapper ClusterMapper
}

// Source returns a source for a controller's Watches (builder.WatchesRawSource). It enqueues the requests of mapper for
// a Cluster when the Cluster was created or deleted, is paused or resumed, is being deleted, is initialized, or has
// another control plane or other labels, which MachineDrainRules select by. Other changes of a Cluster cause no event.
func (c *Clusters) Source(mapper ClusterMapper) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		if mapper == nil {
			return errors.New("clusters: the source has no mapper")
		}
		s := &clusterSink{ctx: ctx, queue: q, mapper: mapper}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sinks[s] = struct{}{}
		if c.informer != nil {
			go c.tellWhenSynced(ctx, c.informer)
		}
		context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.sinks, s)
		})
		return nil
	})
}

// tell enqueues the requests of all mappers for a Cluster. The caller must not hold a lock, because a mapper may read
// caches.
func (c *Clusters) tell(key types.NamespacedName) {
	c.mu.Lock()
	sinks := make([]*clusterSink, 0, len(c.sinks))
	for s := range c.sinks {
		sinks = append(sinks, s)
	}
	c.mu.Unlock()
	for _, s := range sinks {
		for _, request := range s.mapper(key) {
			s.queue.Add(request)
		}
	}
}

// tellWhenSynced wakes the objects whose Cluster was requested before the first list was complete.
func (c *Clusters) tellWhenSynced(ctx context.Context, informer cache.Informer) {
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	c.mu.Lock()
	waiting := c.waiting
	c.waiting = map[types.NamespacedName]struct{}{}
	c.mu.Unlock()
	for key := range waiting {
		c.tell(key)
	}
}

func (c *Clusters) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(raw any, initial bool) {
			if obj, ok := raw.(client.Object); ok && !initial { // tellWhenSynced handles the first list
				c.changed(obj)
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok := before.(client.Object)
			now, ok2 := after.(client.Object)
			if ok && ok2 && old.GetResourceVersion() != now.GetResourceVersion() &&
				(c.lookOf(old) != c.lookOf(now) || !maps.Equal(old.GetLabels(), now.GetLabels())) {
				c.changed(now)
			}
		},
		DeleteFunc: func(raw any) {
			if obj, ok := EventObject(raw); ok {
				c.forget(obj)
				c.changed(obj)
			}
		},
	}
}

func (c *Clusters) changed(obj client.Object) {
	key := client.ObjectKeyFromObject(obj)
	c.mu.Lock()
	c.events++
	delete(c.answers, key)
	c.mu.Unlock()
	c.tell(key)
}

// clusterLook has the fields of a Cluster that Machines use. Other fields, such as the number of Machines that are up
// to date, change often and do not matter to Machines.
type clusterLook struct {
	uid                                           types.UID
	unreadable                                    string
	paused, deleting, infrastructure, initialized bool
	unready                                       bool
	initializedAt, readyAt                        time.Time
	controlPlane                                  contract.Ref
}

func (c *Clusters) lookOf(obj client.Object) clusterLook {
	var s contract.ClusterState
	if err := c.read(obj, &s); err != nil {
		return clusterLook{unreadable: err.Error()}
	}
	return clusterLook{
		uid: s.UID, paused: s.SpecPaused, deleting: !s.Deleting.IsZero(), infrastructure: s.InfrastructureProvisioned,
		unready: s.InfrastructureUnready, readyAt: s.InfrastructureReadyAt,
		initialized: s.ControlPlaneInitialized, initializedAt: s.ControlPlaneInitializedAt, controlPlane: s.ControlPlane,
	}
}
