package contract

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

var errNoLayout = errors.New("the Kind was made without a layout")

func (a layoutAdapter) Write(obj Object, update MachineUpdate) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%s/%s: want an unstructured object, got %T", obj.GetNamespace(), obj.GetName(), obj)
	}
	if a.layout == nil {
		return fmt.Errorf("%s: %w", describe(u), errNoLayout)
	}
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	writeLists(u, update)
	w := writer{obj: u.Object}
	w.texts("labels", update.Labels)
	w.texts("annotations", update.Annotations)
	a.layout.write(&w, update)
	if w.err != nil {
		return fmt.Errorf("%s: %w", describe(u), w.err)
	}
	return nil
}

// writeLists writes the lists of the metadata. An empty list is written as none.
func writeLists(u *unstructured.Unstructured, update MachineUpdate) {
	if !update.Finalizers.Keeps() {
		names, _ := update.Finalizers.Value()
		if len(names) == 0 {
			names = nil
		}
		u.SetFinalizers(names)
	}
	if !update.OwnerReferences.Keeps() {
		owners, _ := update.OwnerReferences.Value()
		if len(owners) == 0 {
			owners = nil
		}
		u.SetOwnerReferences(owners)
	}
}

func (l *MachineLayout) write(w *writer, u MachineUpdate) {
	put(w, l.ProviderID, orClear(u.ProviderID))
	put(w, l.DataSecretName, u.DataSecretName) // an Opt in the state: the empty name is a value
	put(w, l.Phase, orClear(u.Phase))
	put(w, l.NodeName, orClear(mapped(u.Node, func(n NodeRef) string { return n.Name })))
	put(w, l.NodeUID, orClear(mapped(u.Node, func(n NodeRef) string { return string(n.UID) })))
	put(w, l.BootstrapReady, u.BootstrapReady)
	put(w, l.InfrastructureReady, u.InfrastructureReady)
	put(w, l.FailureDomain, orClear(u.FailureDomain))
	put(w, l.ObservedGeneration, orClear(u.ObservedGeneration))
	put(w, l.LastUpdated, orClear(mapped(u.LastUpdated, textOf)))
	put(w, l.DrainStarted, orClear(mapped(u.DrainStarted, textOf)))
	put(w, l.DrainedNodeUID, orClear(mapped(u.DrainedNode, func(uid types.UID) string { return string(uid) })))
	if w.err == nil {
		w.err = l.Addresses.write(w.obj, u.Addresses)
	}
	if w.err == nil {
		w.err = l.Conditions.write(w.obj, u.Conditions, u.RemoveConditions)
	}
}

// writer keeps the first error, so that a table of writes stays a table.
type writer struct {
	obj map[string]any
	err error
}

// texts writes one of the two maps of the metadata, in sorted order so that the error is always the same.
func (w *writer) texts(name string, changes map[string]Change[string]) {
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		put(w, At[string]("metadata", name, key), changes[key])
	}
}

func put[T Scalar](w *writer, f Field[T], c Change[T]) {
	if w.err != nil || c.Keeps() || !f.Exists() {
		return
	}
	if v, set := c.Value(); set {
		w.err = f.Set(w.obj, v)
		return
	}
	w.err = f.Clear(w.obj)
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

// textOf is empty for the zero time.
func textOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return rfc3339(t)
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
