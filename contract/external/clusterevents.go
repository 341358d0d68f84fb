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

// clusterSink is a controller's queue.
type clusterSink struct {
	ctx    context.Context //nolint:containedctx // the life of the source: events have no context of their own
	queue  queue
	mapper ClusterMapper
}

// Source returns a source for a controller's Watches (builder.WatchesRawSource). It enqueues what mapper names for a Cluster when
// Of has something new to say about it that Machines look at: that it came or went, is paused or being deleted, is
// initialised, has other labels, which MachineDrainRules go by, or has another control plane.
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

// tell wakes everybody whom a Cluster concerns. No lock may be held: a mapper may read caches.
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

// tellWhenSynced wakes those who asked before the first list was here.
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
			if obj, ok := raw.(client.Object); ok && !initial { // those who asked before are woken when all are here
				c.changed(obj)
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok := before.(client.Object)
			now, ok2 := after.(client.Object)
			if ok && ok2 && old.GetResourceVersion() != now.GetResourceVersion() && (c.lookOf(old) != c.lookOf(now) || !maps.Equal(old.GetLabels(), now.GetLabels())) {
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

// clusterLook is what Machines look at in a Cluster. What else it says, such as how many of its Machines are up to date, changes
// all the time and concerns none of them.
type clusterLook struct {
	uid                                           types.UID
	unreadable                                    string
	paused, deleting, infrastructure, initialized bool
	initializedAt                                 time.Time
	controlPlane                                  contract.Ref
}

func (c *Clusters) lookOf(obj client.Object) clusterLook {
	var s contract.ClusterState
	if err := c.read(obj, &s); err != nil {
		return clusterLook{unreadable: err.Error()}
	}
	return clusterLook{
		uid: s.UID, paused: s.SpecPaused, deleting: !s.Deleting.IsZero(), infrastructure: s.InfrastructureProvisioned,
		initialized: s.ControlPlaneInitialized, initializedAt: s.ControlPlaneInitializedAt, controlPlane: s.ControlPlane,
	}
}
