package contract

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reader reads the fields of a layout and keeps the first error, so that a table of reads stays a table. Once it failed,
// everything reads as absent.
type reader struct {
	obj map[string]any
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func value[T fieldValue](r *reader, f Field[T]) Opt[T] {
	if r.err != nil {
		return Opt[T]{}
	}
	v, found, err := f.Get(r.obj)
	r.err = err
	return Opt[T]{value: v, found: found && err == nil}
}

func text(r *reader, f Field[string]) string { return value(r, f).Or("") }

// raw returns what is at a place, nil when there is nothing or null.
func (r *reader) raw(at Path) any {
	if r.err != nil {
		return nil
	}
	raw, _, err := lookup(at.segments, r.obj)
	r.err = err
	return raw
}

func (r *reader) time(f Field[time.Time]) time.Time {
	if r.err != nil {
		return time.Time{}
	}
	at, _, err := f.Get(r.obj)
	r.err = err
	return at
}

// content keeps the JSON that the state held before while it says the same.
func (r *reader) content(f Field[json.RawMessage], before json.RawMessage) json.RawMessage {
	if r.err != nil || f.path.IsZero() {
		return nil
	}
	content, _, err := f.Get(r.obj)
	r.err = err
	if content != nil && bytes.Equal(content, before) {
		return before
	}
	return content
}

// texts keeps the list that the state held before while it says the same. Null counts as absent.
func (r *reader) texts(f Field[[]string], before []string) []string {
	raw := r.raw(f.path)
	if raw == nil {
		return nil
	}
	if items, ok := raw.([]any); ok && sameList(before, items) {
		return before[:len(items):len(items)]
	}
	texts, _, err := textsAt(f.path, r.obj, nil)
	r.fail(err)
	return slices.Clip(texts)
}

func sameList(have []string, items []any) bool {
	if len(have) != len(items) {
		return false
	}
	for i, item := range items {
		if !isText(item, have[i]) {
			return false
		}
	}
	return true
}

// writer writes the fields of a layout and keeps the first error, so that a table of writes stays a table.
type writer struct {
	obj map[string]any
	err error
}

// put writes a change. A layout without a place for the value drops it.
func put[T written](w *writer, f Field[T], c Change[T]) {
	if w.err != nil || c.Keeps() || f.path.IsZero() {
		return
	}
	if v, sets := c.Value(); sets {
		w.err = Set(f, w.obj, v)
		return
	}
	w.err = f.path.clear(w.obj)
}

// putList writes a list whose entries are made by content. An empty list is written as none.
func putList[T any](w *writer, at Path, c Change[[]T], content func(T) any) {
	if w.err != nil || c.Keeps() || at.IsZero() {
		return
	}
	values, _ := c.Value()
	if len(values) == 0 {
		w.err = at.clear(w.obj)
		return
	}
	items := make([]any, 0, len(values))
	for _, v := range values {
		items = append(items, content(v))
	}
	w.err = at.set(w.obj, items)
}

func mapped[A, B any](c Change[A], f func(A) B) Change[B] {
	v, set := c.Value()
	switch {
	case set:
		return SetTo(f(v))
	case c.Clears():
		return Cleared[B]()
	default:
		return Change[B]{}
	}
}

// orClear turns the change to a zero value into the removal of it: where the state does not tell zero from absent, an
// object must not either, and the schemas of Machines refuse empty texts.
func orClear[T comparable](c Change[T]) Change[T] {
	var zero T
	if v, set := c.Value(); set && v == zero {
		return Cleared[T]()
	}
	return c
}

func (r *reader) conditions(f ConditionsField, before []metav1.Condition) []metav1.Condition {
	if r.err != nil {
		return nil
	}
	conditions, err := f.Get(r.obj, before)
	r.err = err
	return conditions
}

func (w *writer) conditions(f ConditionsField, upsert []metav1.Condition, remove []string) {
	if w.err == nil {
		w.err = f.write(w.obj, upsert, remove)
	}
}
