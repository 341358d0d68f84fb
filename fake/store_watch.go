package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// event is one write: previous is nil for a creation, current for a removal (previous then has the version of the removal, and
// removed is the record as it was stored).
type event struct {
	version                    uint64
	previous, current, removed *record
}

// before is what was stored before the event; nil for a creation.
func (e event) before() *record {
	if e.removed != nil {
		return e.removed
	}
	return e.previous
}

// kind of the object that the event is about.
func (e event) record() *record {
	if e.current != nil {
		return e.current
	}
	return e.previous
}

// listener is called for every event, with the store locked, so that it must only take a note.
type listener struct{ notify func(event) }

// publish records an event and hands it to watchers and loops. The caller holds the lock.
func (s *Store) publish(e event) {
	k := e.record().kind
	k.events = append(k.events, e)
	if extra := len(k.events) - s.history; extra > 0 && extra >= s.history/4 { // cut rarely, it copies
		k.dropped = k.events[extra-1].version
		k.events = append([]event(nil), k.events[extra:]...)
	}
	for w := range k.watchers {
		w.offer(e)
	}
	for l := range s.listeners {
		l.notify(e)
	}
}

// watcher is the body of a watch response. Its queue is bounded: a reader that is too slow is told 410 and cut off, it never
// holds up a writer.
type watcher struct {
	store  *Store
	sel    *selection
	ctx    context.Context //nolint:containedctx // of the request whose body this is
	lagged bool
	limit  int

	mu     sync.Mutex
	queue  []queued
	last   time.Time
	ended  bool
	wake   chan struct{}
	unread []byte
}

type queued struct {
	due  time.Time
	line func() []byte
}

// watch opens a watch as the query asks: from now with the present objects first, from a version, or with initial events and a
// bookmark after them.
func (s *Store) watch(ctx context.Context, sel *selection, version string, initialEvents, lagged bool) (io.ReadCloser, error) {
	from := uint64(0)
	if version != "" {
		var err error
		if from, err = strconv.ParseUint(version, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest("invalid resource version " + strconv.Quote(version))
		}
	}
	w := &watcher{store: s, sel: sel, ctx: ctx, lagged: lagged, limit: s.history, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := sel.view.kind
	switch {
	case from == 0 || initialEvents:
		for _, rec := range s.records(sel) {
			w.push(time.Time{}, func() []byte { return line(watch.Added, sel.render(rec)) })
		}
		w.limit += len(w.queue)
		if initialEvents {
			mark := w.bookmark(s.version)
			w.push(time.Time{}, func() []byte { return mark })
		}
	case from < k.dropped:
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, k.dropped))
	default:
		for _, e := range k.events {
			if e.version > from {
				w.offer(e)
			}
		}
	}
	k.watchers[w] = struct{}{}
	return w, nil
}

func line(t watch.EventType, object []byte) []byte {
	out := append(make([]byte, 0, len(object)+40), `{"type":"`...)
	out = append(append(out, t...), `","object":`...)
	return append(append(out, object...), '}', '\n')
}

func (w *watcher) bookmark(version uint64) []byte {
	object, _ := json.Marshal(map[string]any{
		"kind": w.sel.view.gvk.Kind, "apiVersion": w.sel.view.gvk.GroupVersion().String(),
		"metadata": map[string]any{
			"resourceVersion": strconv.FormatUint(version, 10),
			"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
	if w.sel.metadata {
		object, _ = json.Marshal(map[string]any{
			"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
			"metadata": map[string]any{
				"resourceVersion": strconv.FormatUint(version, 10),
				"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
			},
		})
	}
	return line(watch.Bookmark, object)
}

// offer queues an event as this watcher sees it: an object that starts or stops to match is added or deleted.
func (w *watcher) offer(e event) {
	was := e.previous != nil && w.sel.matches(e.previous)
	is := e.current != nil && w.sel.matches(e.current)
	var t watch.EventType
	show := e.current
	switch {
	case was && is:
		t = watch.Modified
	case is:
		t = watch.Added
	case was:
		t = watch.Deleted // shows what was, with the version of the change
		show = e.previous
		if e.current != nil {
			show = e.previous.at(e.version)
		}
	default:
		return
	}
	var due time.Time
	if w.lagged {
		if lag := w.store.lag(show.kind.GroupKind, show.key); lag > 0 {
			due = w.store.clock.Now().Add(lag)
		}
	}
	w.push(due, func() []byte { return line(t, w.sel.render(show)) })
}

func (w *watcher) push(due time.Time, text func() []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if due.Before(w.last) {
		due = w.last // events stay in order
	}
	w.last = due
	if len(w.queue) > w.limit {
		w.queue = append(w.queue[:0], queued{line: expired})
		w.ended = true
	} else {
		w.queue = append(w.queue, queued{due: due, line: text})
	}
	w.signal()
}

func expired() []byte {
	status := apierrors.NewResourceExpired("the watcher is too slow: its queue overflowed").Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	object, _ := json.Marshal(status)
	return line(watch.Error, object)
}

// end lets the reader finish what is queued and then see the end of the stream.
func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Read blocks until an event is due. It ends with io.EOF when the watch is closed, its context ends, or the kind is gone.
func (w *watcher) Read(p []byte) (int, error) {
	for len(w.unread) == 0 {
		text, wait, done := w.next()
		if done {
			return 0, io.EOF
		}
		if text != nil {
			w.unread = text()
			break
		}
		if !w.sleep(wait) {
			return 0, io.EOF
		}
	}
	n := copy(p, w.unread)
	w.unread = w.unread[n:]
	return n, nil
}

func (w *watcher) next() (text func() []byte, wait time.Duration, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil || (w.ended && len(w.queue) == 0) {
		return nil, 0, true
	}
	if len(w.queue) == 0 {
		return nil, 0, false
	}
	first := w.queue[0]
	if !first.due.IsZero() {
		if wait = first.due.Sub(w.store.clock.Now()); wait > 0 {
			return nil, wait, false
		}
	}
	w.queue = w.queue[1:]
	return first.line, 0, false
}

// sleep waits for a new event, the given time if it is not zero, or the end of the request, for which it returns false.
func (w *watcher) sleep(wait time.Duration) bool {
	var timer <-chan time.Time
	if wait > 0 {
		t := w.store.clock.NewTimer(wait)
		defer t.Stop()
		timer = t.C()
	}
	select {
	case <-w.wake:
	case <-timer:
	case <-w.ctx.Done():
		return false
	}
	return true
}

// Close ends the watch. It may be called while Read blocks.
func (w *watcher) Close() error {
	w.store.mu.Lock()
	delete(w.sel.view.watchers, w)
	w.store.mu.Unlock()
	w.mu.Lock()
	w.queue = nil
	w.mu.Unlock()
	w.end()
	return nil
}
