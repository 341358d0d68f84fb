package contract

import (
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reader reads the fields of a layout and stores the first error, so that callers need no error checks. After an error, all fields read as
// absent.
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

// raw returns the value at a path, nil when it is absent or null.
func (r *reader) raw(at Path) any {
	if r.err != nil {
		return nil
	}
	raw, _, err := lookup(at.segments, r.obj)
	r.err = err
	return raw
}

func (r *reader) time(f Field[time.Time]) time.Time {
	return value(r, f).Or(time.Time{})
}

// texts returns before while the content is equal. Null counts as absent.
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

// writer writes the fields of a layout and stores the first error, so that callers need no error checks.
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

// putList writes a list; content encodes an entry. An empty list is removed.
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

// orClear turns a change to the zero value into a removal: where the state does not distinguish zero from absent, the object must not
// either, and the schemas of Machines reject empty texts.
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

// Conditions of provider objects that their owners mirror.
const (
	// ConditionReady is the condition of an InfraMachine, a BootstrapConfig and an InfraMachinePool.
	ConditionReady = "Ready"
	// ConditionAvailable is the condition of a ControlPlane.
	ConditionAvailable = "Available"
)

// has reports whether there is a value at a path, and no error so far.
func (r *reader) has(at Path) bool {
	_, found, err := lookup(at.segments, r.obj)
	return found && err == nil && r.err == nil
}

// either reports whether one of two fields is true. It reads the second only when the first is not true: a provider that migrates from one
// contract to the next may write only one of them, or update one of them late.
func (r *reader) either(own, other Field[bool]) bool {
	return value(r, own).Or(false) || value(r, other).Or(false)
}

// firstSaid returns the first of two fields that is not empty, or else an empty text that one of them holds.
func (r *reader) firstSaid(own, other Field[string]) Opt[string] {
	v := value(r, own)
	if v.value != "" {
		return v
	}
	if w := value(r, other); w.value != "" || !v.found {
		return w
	}
	return v
}

// spare moves an error that blocks nothing to into: reading continues as if the value were absent. Values below a parent of another type
// have the same error, which is stored once.
func (r *reader) spare(into *error) {
	if r.err == nil {
		return
	}
	if *into == nil || !strings.Contains((*into).Error(), r.err.Error()) {
		*into = errors.Join(*into, r.err)
	}
	r.err = nil
}

// spareUnless spares the error of a value that is not due yet.
func (r *reader) spareUnless(due bool, into *error) {
	if !due {
		r.spare(into)
	}
}

// mirrored reads a condition for its owner to mirror. An unreadable condition must not block the owner, because conditions are for people:
// it becomes Unknown with the error as its message. Cluster API does the same where it does not panic.
func mirrored(f ConditionsField, obj map[string]any, conditionType string) Opt[metav1.Condition] {
	c, found, err := f.Find(obj, conditionType)
	if err != nil {
		return Some(metav1.Condition{
			Type: conditionType, Status: metav1.ConditionUnknown, Reason: ReasonInvalidCondition, Message: err.Error(),
		})
	}
	return Opt[metav1.Condition]{value: c, found: found}
}
