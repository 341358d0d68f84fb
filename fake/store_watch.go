package fake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// event is one write. previous is nil for a creation. current is nil for a removal: then previous has the version of the removal, and
// removed is the record as it was stored.
type event struct {
	version                    uint64
	previous, current, removed *record
}

// before returns the stored record before the event; nil for a creation.
func (e event) before() *record { return cmp.Or(e.removed, e.previous) }

func (e event) record() *record { return cmp.Or(e.current, e.previous) }

// listener is called for every event with the store locked, so it must return quickly.
type listener struct{ notify func(event) }

// publish records an event and passes it to watchers and loops. The caller holds the lock.
func (s *Store) publish(e event) {
	k := e.record().kind
	k.events = append(k.events, e)
	if extra := len(k.events) - s.history; extra > 0 && extra >= s.history/4 { // rarely, because it copies
		k.dropped = k.events[extra-1].version
		k.events = append([]event(nil), k.events[extra:]...)
	}
	if s.onEvent != nil {
		s.onEvent(e.record().inFirst(), e.current == nil)
	}
	for w := range k.watchers {
		w.offer(e)
	}
	for l := range s.listeners {
		l.notify(e)
	}
}

// watcher is the body of a watch response. Its queue is bounded: a slow reader gets 410 and the end of the stream, and never blocks a
// writer.
type watcher struct {
	store  *Store
	sel    *selection
	ctx    context.Context //nolint:containedctx // of the request
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

// watch opens a watch according to the options: with the existing objects and a bookmark first, from a version, or from now.
func (s *Store) watch(ctx context.Context, sel *selection, o internalversion.ListOptions, lagged bool) (io.ReadCloser, error) {
	from := uint64(0)
	if o.ResourceVersion != "" {
		var err error
		if from, err = strconv.ParseUint(o.ResourceVersion, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest("invalid resource version " + strconv.Quote(o.ResourceVersion))
		}
	}
	w := &watcher{
		store: s, sel: sel, ctx: ctx, lagged: lagged, limit: s.history, wake: make(chan struct{}, 1),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := sel.view.kind
	switch {
	case o.SendInitialEvents != nil && *o.SendInitialEvents:
		for _, rec := range s.records(sel) {
			w.push(queued{line: func() []byte { return line(watch.Added, sel.render(rec)) }})
		}
		w.limit += len(w.queue)
		if o.AllowWatchBookmarks {
			mark := w.initialEventsEnd(s.version)
			w.push(queued{line: func() []byte { return mark }})
		}
	case from == 0:
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

// initialEventsEnd returns the bookmark after the initial events: an object of the watched kind that has only a version and an annotation.
func (w *watcher) initialEventsEnd(version uint64) []byte {
	apiVersion, kind := w.sel.shown().ToAPIVersionAndKind()
	object, _ := json.Marshal(metav1.PartialObjectMetadata{ // plain values
		TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: apiVersion},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.FormatUint(version, 10), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	})
	return line(watch.Bookmark, object)
}

// offer queues an event for this watcher: if an object starts or stops matching, the event is Added or Deleted.
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
		t = watch.Deleted // the previous object with the version of the change
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
	w.push(queued{due: due, line: func() []byte { return line(t, w.sel.render(show)) }})
}

func (w *watcher) push(q queued) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if q.due.Before(w.last) {
		q.due = w.last // events keep their order
	}
	w.last = q.due
	if len(w.queue) > w.limit {
		w.queue = append(w.queue[:0], queued{line: expired})
		w.ended = true
	} else {
		w.queue = append(w.queue, q)
	}
	w.signal()
}

func expired() []byte {
	return line(watch.Error, encoded(apierrors.NewResourceExpired("the watcher is too slow: its queue overflowed").Status()))
}

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

// Read blocks until an event is due. It returns io.EOF when the watch is closed, its context ends, or the kind is unregistered.
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

// sleep waits for a new event, for the given time if it is not zero, or for the end of the request, for which it returns false.
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
