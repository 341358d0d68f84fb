package simulation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informer reports how far a kind is, and passes its events on. It is its own store.
type informer struct {
	cache.Informer // only what is below is used
	toolscache.Store

	kind *viewed
}

// registered is the registration of a handler.
type registered struct {
	toolscache.ResourceEventHandlerRegistration // only what is below is used

	informer informer
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r registered) HasSynced() bool { return r.informer.HasSynced() }

// informers have one kind.
type informers struct {
	cache.Informers // only what is below is used

	kind *viewed
}

// GetInformer implements cache.Informers.
func (i informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{kind: i.kind}, nil
}

// AddEventHandler implements cache.Informer.
func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.kind.add(h)
	return registered{informer: i}, nil
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// HasSynced implements cache.Informer. A process has listed the kinds of the management cluster before it starts; their Tracker calls it
// from a goroutine.
func (i informer) HasSynced() bool { return i.kind.session == nil || !i.kind.unlisted }

// IsStopped implements cache.Informer.
func (informer) IsStopped() bool { return false }

// GetStore is that of shared informers; children read from it how far the cache is.
func (i informer) GetStore() toolscache.Store { return i }

// LastStoreSyncResourceVersion implements toolscache.Store.
func (i informer) LastStoreSyncResourceVersion() string { return i.kind.version }

// List implements toolscache.Store. Metrics count what is in it.
func (i informer) List() (all []any) {
	for _, obj := range i.kind.sorted() {
		all = append(all, obj)
	}
	return all
}

// handlers are those of the events of one kind in one cache. Controllers add them from goroutines of their own when they start.
type handlers struct {
	mu         sync.Mutex
	all, fresh []toolscache.ResourceEventHandler
}

func (h *handlers) add(handler toolscache.ResourceEventHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh = append(h.fresh, handler)
}

// take returns the handlers that have yet to get what the cache has.
func (h *handlers) take() []toolscache.ResourceEventHandler {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.fresh
	h.all, h.fresh = append(h.all, taken...), nil
	return taken
}

// introduce passes what the caches have to handlers that were added.
func (p *process) introduce() {
	p.starting.Wait()
	for _, begin := range p.starting.begins {
		p.world.fail("a source starts", begin())
	}
	p.starting.begins = nil
	for _, gvk := range p.world.watched {
		k := p.view.kinds[gvk.GroupKind()]
		for _, handler := range k.take() {
			for _, obj := range k.sorted() {
				handler.OnAdd(k.form(obj), true)
			}
		}
	}
}

// form is the form in which handlers get an object.
func (k *viewed) form(obj *unstructured.Unstructured) any {
	if k.nodes != nil {
		return k.typed.of(obj)
	}
	return obj
}

// notify passes a change of an object on, as an informer does: nil is no object, before or after.
func (k *viewed) notify(before, after *unstructured.Unstructured) {
	for _, handler := range k.all {
		switch {
		case after == nil && before != nil:
			handler.OnDelete(k.form(before))
		case before == nil && after != nil:
			handler.OnAdd(k.form(after), false)
		case before != nil && before.GetResourceVersion() != after.GetResourceVersion():
			handler.OnUpdate(k.form(before), k.form(after))
		}
	}
}
