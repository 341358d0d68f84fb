package machine

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watches starts one informer for each referenced kind at the first look at it, and wakes the Machines concerned. It is a
// controller-runtime Source, because that is how a queue is handed over. Safe for concurrent use.
type watches struct {
	cache cache.Informers
	// machines returns the Machines that an event about obj concerns.
	machines func(ctx context.Context, watched, obj client.Object) []reconcile.Request

	mu    sync.Mutex
	kinds map[string]*watched
	ctx   context.Context //nolint:containedctx // the life of the source: informers' handlers have no context of their own
	queue queue
}

type watched struct {
	informer cache.Informer
	waiting  map[types.NamespacedName]struct{}
}

// Start implements controller-runtime's Source. It does not block.
func (w *watches) Start(ctx context.Context, q queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.queue = ctx, q
	for _, k := range w.kinds {
		go w.wakeWhenSynced(ctx, k)
	}
	return nil
}

// String names the source in logs.
func (w *watches) String() string { return "kinds that Machines refer to" }

// ensure watches the kind of obj and reports whether its first list is here. If it is not, the Machine is woken when it
// comes. It makes no request but discovery, and that only for a kind it has not seen.
func (w *watches) ensure(ctx context.Context, obj client.Object, machine types.NamespacedName) (synced bool, err error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	id := gvk.String()
	w.mu.Lock()
	known := w.kinds[id]
	w.mu.Unlock()
	if known == nil {
		if known, err = w.add(ctx, id, obj); err != nil {
			return false, err
		}
	}
	if known.informer.HasSynced() {
		return true, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	known.waiting[machine] = struct{}{}
	return false, nil
}

func (w *watches) add(ctx context.Context, id string, obj client.Object) (*watched, error) {
	informer, err := w.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false)) // may ask discovery: not under the lock
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.kinds[id]; known != nil {
		return known, nil
	}
	if _, err := informer.AddEventHandler(w.handler(obj)); err != nil {
		return nil, err
	}
	known := &watched{informer: informer, waiting: map[types.NamespacedName]struct{}{}}
	w.kinds[id] = known
	if w.queue != nil {
		go w.wakeWhenSynced(w.ctx, known)
	}
	return known, nil
}

func (w *watches) handler(kind client.Object) toolscache.ResourceEventHandler {
	wake := func(raw any) {
		if obj, ok := eventObject(raw); ok {
			w.wake(kind, obj)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: wake,
		UpdateFunc: func(before, after any) {
			old, ok := before.(metav1.Object)
			now, ok2 := after.(metav1.Object)
			if ok && ok2 && old.GetResourceVersion() == now.GetResourceVersion() {
				return // a resync says nothing new
			}
			wake(after)
		},
		DeleteFunc: wake,
	}
}

// eventObject is what an informer's event is about. Of an object whose deletion the informer has missed it is what was last known.
func eventObject(raw any) (client.Object, bool) {
	if tombstone, ok := raw.(toolscache.DeletedFinalStateUnknown); ok {
		raw = tombstone.Obj
	}
	obj, ok := raw.(client.Object)
	return obj, ok
}

func (w *watches) wake(kind, obj client.Object) {
	w.mu.Lock()
	ctx, q := w.ctx, w.queue
	w.mu.Unlock()
	if q == nil {
		return
	}
	for _, request := range w.machines(ctx, kind, obj) {
		q.Add(request)
	}
}

func (w *watches) wakeWhenSynced(ctx context.Context, k *watched) {
	if !toolscache.WaitForCacheSync(ctx.Done(), k.informer.HasSynced) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range k.waiting {
		w.queue.Add(reconcile.Request{NamespacedName: key})
	}
	clear(k.waiting)
}
