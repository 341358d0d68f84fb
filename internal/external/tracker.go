package external

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// queue is the queue that a Source receives.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Mapper returns the requests to enqueue for an event of obj. watched is an empty object of the same kind with its GVK,
// which objects from a cache may lack.
type Mapper func(ctx context.Context, watched, obj client.Object) []reconcile.Request

// Tracker reads referenced objects, starts one informer per kind when the first object of the kind is read, and enqueues requests for their
// events. It is a controller-runtime Source, so that it receives the queue: pass it to a controller's builder (WatchesRawSource) once. Safe
// for concurrent use.
type Tracker struct {
	cache cache.Cache
	wakes Mapper
	news  func(before, now client.Object) bool // nil: every update of an object enqueues requests, otherwise those for which it is true
	name  string
	clock clock.PassiveClock
	// contracts are the supported contract versions, for contract.Resolve.
	contracts []contract.Version

	mu      sync.Mutex
	kinds   map[schema.GroupVersionKind]cache.Informer
	refused map[schema.GroupVersionKind]refusal
	sinks   []*sink
}

// sink is the queue of a controller.
type sink struct {
	ctx   context.Context //nolint:containedctx // the life of the source: informers' handlers have no context of their own
	queue queue
	wakes Mapper
}

// refusal records for a while why a kind is not served, because each request runs discovery, and all discovery of the process waits for it.
type refusal struct {
	err   error
	until time.Time
}

// NewTracker returns a Tracker that reads through a cache and enqueues the requests of mapper. name is its name in logs. contracts are the
// supported versions in contract labels of CRDs; default contract.Versions(). NewTracker makes no request.
func NewTracker(c cache.Cache, mapper Mapper, name string, contracts ...contract.Version) *Tracker {
	return &Tracker{
		cache: c, wakes: mapper, name: name, clock: clock.RealClock{}, contracts: slices.Clone(contracts),
		kinds: map[schema.GroupVersionKind]cache.Informer{}, refused: map[schema.GroupVersionKind]refusal{},
	}
}

// Start implements controller-runtime's Source. It does not block.
func (t *Tracker) Start(ctx context.Context, q queue) error {
	t.start(&sink{ctx, q, t.wakes})
	return nil
}

func (t *Tracker) start(s *sink) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sinks = append(t.sinks, s)
}

// String returns the name of the source for logs.
func (t *Tracker) String() string { return t.name }

// Ensure watches the kind of obj, by its GVK, and reports whether the first list is complete; if it is not, retry after UnsyncedRetry. It
// makes no request except discovery, and only for a kind that it does not watch yet. For a kind that is not served the error matches
// meta.IsNoMatchError; discovery runs again after NotServedRetry, for all callers together, or when a CustomResourceDefinition changes. It
// does not retain obj: the caller may read into it at once.
func (t *Tracker) Ensure(ctx context.Context, obj client.Object) (synced bool, err error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	t.mu.Lock()
	informer, refused := t.kinds[gvk], t.refused[gvk]
	t.mu.Unlock()
	if informer == nil {
		if refused.err != nil && t.clock.Now().Before(refused.until) {
			return false, refused.err
		}
		if informer, err = t.add(ctx, gvk, obj); err != nil {
			return false, err
		}
	}
	return informer.HasSynced(), nil
}

func (t *Tracker) add(ctx context.Context, gvk schema.GroupVersionKind, obj client.Object) (cache.Informer, error) {
	kind, _ := obj.DeepCopyObject().(client.Object)
	informer, err := t.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false)) // may run discovery, so not under the lock
	t.mu.Lock()
	defer t.mu.Unlock()
	if meta.IsNoMatchError(err) {
		t.refused[gvk] = refusal{err, t.clock.Now().Add(NotServedRetry)}
	}
	if err != nil {
		return nil, err
	}
	delete(t.refused, gvk)
	if known := t.kinds[gvk]; known != nil {
		return known, nil
	}
	if _, err := informer.AddEventHandler(t.handler(kind)); err != nil {
		return nil, err
	}
	t.kinds[gvk] = informer
	return informer, nil
}

func (t *Tracker) handler(kind client.Object) toolscache.ResourceEventHandler {
	wake := func(raw any) {
		if obj, ok := EventObject(raw); ok {
			t.wake(kind, obj)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: wake,
		UpdateFunc: func(before, after any) {
			old, ok := before.(client.Object)
			now, ok2 := after.(client.Object)
			if ok && ok2 && (old.GetResourceVersion() == now.GetResourceVersion() || (t.news != nil && !t.news(old, now))) {
				return // a resync is not a change
			}
			wake(after)
		},
		DeleteFunc: wake,
	}
}

// EventObject returns the object of an informer's event. For a missed deletion it returns the last known state.
func EventObject(raw any) (client.Object, bool) {
	if tombstone, ok := raw.(toolscache.DeletedFinalStateUnknown); ok {
		raw = tombstone.Obj
	}
	obj, ok := raw.(client.Object)
	return obj, ok
}

// wake enqueues the requests for an event of an object. The caller must not hold a lock, because a mapper may read caches.
func (t *Tracker) wake(kind, obj client.Object) {
	t.mu.Lock()
	if kind.GetObjectKind().GroupVersionKind() == CRDGVK() {
		clear(t.refused)
	}
	sinks := t.sinks // a sink that is added later gets later events
	t.mu.Unlock()
	for _, s := range sinks {
		for _, request := range s.wakes(s.ctx, kind, obj) {
			s.queue.Add(request)
		}
	}
}
