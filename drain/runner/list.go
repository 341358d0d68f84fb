package runner

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// list is the store of a reflector. A reflector retries some errors without reporting them, so the list and watch calls report their
// failures to the store.
type list struct {
	toolscache.Indexer
	what    string // the objects in the list, for people
	kind    client.ObjectList
	options []client.ListOption
	changed func(client.Object) // called for each event; nil for all objects, or when their readability changes
	cancel  context.CancelFunc  // set before the reflector starts
	// unserved reports after a failure that there are no such objects; nil for a kind that every API server has.
	unserved func(error) bool

	mu     sync.Mutex
	synced bool
	err    error
}

func newList(kind client.ObjectList, by toolscache.Indexers, changed func(client.Object), options ...client.ListOption) *list {
	return &list{
		Indexer: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, by), kind: kind, options: options, changed: changed,
	}
}

// state reports whether the objects were listed, and the error of reading them now.
func (l *list) state() (synced bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced, l.err
}

// notListedError matches ErrNotListed. Its text names the missing list.
type notListedError string

func (e notListedError) Error() string { return string(e) }

func (notListedError) Is(target error) bool { return target == ErrNotListed }

// missing returns an error while the objects are not listed, with the response of the API server if it rejects the list.
func (l *list) missing() error {
	text := "waiting for the list of " + l.what
	switch synced, err := l.state(); {
	case synced:
		return nil
	case err != nil:
		text += "; if this lasts, look for missing list and watch permissions: " + contract.SteadyText(err.Error())
	}
	return notListedError(text)
}

// record stores whether the objects can be read. After a failure, the known objects remain.
func (l *list) record(err error, synced bool) {
	l.mu.Lock()
	news := err != nil || l.err != nil || synced
	l.err, l.synced = err, l.synced || synced
	l.mu.Unlock()
	if news {
		l.changed(nil)
	}
}

// Add implements cache.ReflectorStore.
func (l *list) Add(obj any) error { return l.Update(obj) }

// Update implements cache.ReflectorStore.
func (l *list) Update(obj any) error {
	defer l.event(obj)
	return l.Indexer.Update(obj)
}

// Delete implements cache.ReflectorStore.
func (l *list) Delete(obj any) error {
	defer l.event(obj)
	return l.Indexer.Delete(obj)
}

func (l *list) event(obj any) {
	if o, ok := obj.(client.Object); ok {
		l.changed(o)
	}
}

// Replace implements cache.ReflectorStore.
func (l *list) Replace(all []any, version string) error {
	defer l.record(nil, true)
	return l.Indexer.Replace(all, version)
}

// listWatch lists and watches through a client. An API server that streams lists sends the existing objects through the watch, in one
// request; otherwise client-go's reflector falls back to a list. Both are consistent reads. Resource version 0, the reflector's first
// choice, may be served from a cache that lacks the newest Pods.
func (l *list) listWatch(c client.WithWatch) *toolscache.ListWatch {
	options := func(raw *metav1.ListOptions) []client.ListOption {
		return append([]client.ListOption{&client.ListOptions{Limit: raw.Limit, Continue: raw.Continue, Raw: raw}}, l.options...)
	}
	report := func(ctx context.Context, verb string, err error) error {
		switch {
		case err == nil || ctx.Err() != nil:
		case l.unserved != nil && l.unserved(err):
			l.record(nil, true)
		default:
			l.record(fmt.Errorf("%s: %w", verb, err), false)
		}
		return err
	}
	empty := func() client.ObjectList {
		objects, _ := l.kind.DeepCopyObject().(client.ObjectList) // always one
		return objects
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
			objects := empty()
			return objects, report(ctx, "list", c.List(ctx, objects, options(&opts)...))
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			streams := opts.SendInitialEvents != nil && *opts.SendInitialEvents
			if streams {
				opts.ResourceVersion = ""
			}
			events, err := c.Watch(ctx, empty(), options(&opts)...)
			if err == nil && !streams { // a stream replaces the store later
				l.record(nil, false) // the watch continues at the version of the store
			}
			return events, report(ctx, "watch", err)
		},
	}
}

func typed[T any](objects []any) []*T {
	out := make([]*T, 0, len(objects))
	for _, obj := range objects {
		if o, ok := obj.(*T); ok {
			out = append(out, o)
		}
	}
	return out
}

// under returns the objects of a list by the value of one of its indexes.
func under[T any](l *list, index, value string) []*T {
	objects, _ := l.ByIndex(index, value) // fails only without the index
	return typed[T](objects)
}

// named returns a cluster-scoped object by its name; nil when the list has none.
func named[T any](l *list, name string) *T {
	obj, _, _ := l.GetByKey(name) // never fails
	o, _ := obj.(*T)
	return o
}
