package runner

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informers returns the informer of a kind.
type informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// listing follows the objects of one kind through an informer. While the API server cannot be asked which kinds it serves, it asks again
// with growing pauses. It is safe for concurrent use after open is called.
type listing struct {
	informers informers
	kind      client.Object
	name      string // plural of the kind, for errors
	clock     clock.Clock
	impatient bool // open returns the first error
	onDemand  bool // the informer is not requested before the first call of ask
	// emptyIfUnserved: a kind that the API server does not serve has no objects. Otherwise its objects are unknown.
	emptyIfUnserved bool
	failures        *listFailures // of the cache behind informers; may be nil
	changed         func()        // is called when ask may give another answer; may be nil

	demand sync.Once
	asked  chan struct{} // closed by the first call of ask

	mu       sync.Mutex
	synced   func() bool // nil while no informer is followed
	unserved bool
	err      error
}

func newListing(of informers, name string, kind client.Object) *listing {
	return &listing{informers: of, kind: kind, name: name, clock: clock.RealClock{}, asked: make(chan struct{})}
}

// ask reports whether all objects are known. The error says why the kind cannot be listed.
func (l *listing) ask() (known bool, err error) {
	l.demand.Do(func() { close(l.asked) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unserved {
		return true, nil
	}
	return l.synced != nil && l.synced(), l.err
}

// why returns ": " and the reason why the kind is not listed, or nothing when no reason is known.
func (l *listing) why() string {
	_, err := l.ask()
	if err = cmp.Or(err, l.failures.of(l.kind)); err == nil {
		return ""
	}
	return ": " + err.Error()
}

// open follows the informer until stop is called. It returns when the informer accepts the handler, or when ctx ends. It does not wait for
// the objects. take may be nil.
func (l *listing) open(ctx context.Context, take func(obj client.Object, gone bool)) (stop func(), err error) {
	const longest = 30 * time.Second
	if l.onDemand {
		select {
		case <-ctx.Done():
			return func() {}, nil
		case <-l.asked:
		}
	}
	for pause := time.Second; ; pause = min(2*pause, longest) {
		synced, remove, err := l.follow(ctx, take)
		l.learn(synced, err)
		if err == nil {
			return func() { remove(); l.learn(nil, nil) }, nil
		}
		if l.impatient {
			return func() {}, err
		}
		select {
		case <-ctx.Done():
			return func() {}, nil
		case <-l.clock.After(pause):
		}
	}
}

// awaitSync waits until all objects are known or ctx ends.
func (l *listing) awaitSync(ctx context.Context) {
	known := func() bool { known, _ := l.ask(); return known }
	if toolscache.WaitForCacheSync(ctx.Done(), known) && l.changed != nil {
		l.changed()
	}
}

func (l *listing) learn(synced func() bool, err error) {
	l.mu.Lock()
	l.synced, l.err, l.unserved = synced, err, l.emptyIfUnserved && meta.IsNoMatchError(err)
	l.mu.Unlock()
	if l.changed != nil {
		l.changed()
	}
}

// follow adds one handler for all events, because several handlers do not run in step.
func (l *listing) follow(ctx context.Context, take func(client.Object, bool)) (synced func() bool, remove func(), err error) {
	informer, err := l.informers.GetInformer(ctx, l.kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, fmt.Errorf("informer of %s: %w", l.name, err)
	}
	if take == nil {
		return informer.HasSynced, func() {}, nil
	}
	hand := func(obj any, gone bool) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj // the last known state
		}
		if o, ok := obj.(client.Object); ok {
			take(o, gone)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { hand(obj, false) },
		UpdateFunc: func(_, obj any) { hand(obj, false) },
		DeleteFunc: func(obj any) { hand(obj, true) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("informer of %s: %w", l.name, err)
	}
	synced = informer.HasSynced
	if registration != nil {
		synced = registration.HasSynced
	}
	return synced, func() { _ = informer.RemoveEventHandler(registration) }, nil
}
