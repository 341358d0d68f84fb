package contract

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Opt is a value that is present or absent. An absent replica count is not 0, and an absent secret name is not "". The zero Opt is absent.
type Opt[T any] struct {
	value T
	found bool
}

// Some returns an Opt that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, found: true} }

// SomeAt returns an Opt that holds *p, absent when p is nil. It does not retain p.
func SomeAt[T any](p *T) Opt[T] {
	if p == nil {
		return Opt[T]{}
	}
	return Some(*p)
}

// Get returns the value and whether it is present.
func (o Opt[T]) Get() (T, bool) { return o.value, o.found }

// Found reports whether the value is present.
func (o Opt[T]) Found() bool { return o.found }

// Or returns the value, or fallback when it is absent.
func (o Opt[T]) Or(fallback T) T {
	if o.found {
		return o.value
	}
	return fallback
}

type changeKind uint8

const (
	changeKeep changeKind = iota
	changeSet
	changeClear
)

// Change is what to do with a value: keep it (the zero Change), set it or clear it. It is immutable, except for what the caller's value
// points to.
type Change[T any] struct {
	value T
	kind  changeKind
}

// SetTo returns the Change that writes v.
func SetTo[T any](v T) Change[T] { return Change[T]{value: v, kind: changeSet} }

// Cleared returns the Change that removes the value.
func Cleared[T any]() Change[T] { return Change[T]{kind: changeClear} }

// Keeps reports whether the value does not change.
func (c Change[T]) Keeps() bool { return c.kind == changeKeep }

// Clears reports whether the value is removed.
func (c Change[T]) Clears() bool { return c.kind == changeClear }

// Value returns the value to write and whether there is one.
func (c Change[T]) Value() (T, bool) { return c.value, c.kind == changeSet }

// ApplyTo applies the change to a field of a Go type; clearing sets it to zero.
func (c Change[T]) ApplyTo(field *T) {
	if c.kind != changeKeep {
		*field = c.value // zero for Cleared
	}
}

// ApplyToPointer applies the change to an optional field of a Go type; clearing sets it to nil. The previous pointee does not change,
// because an object in a cache may share it.
func (c Change[T]) ApplyToPointer(field **T) {
	switch c.kind {
	case changeSet:
		*field = &c.value
	case changeClear:
		*field = nil
	case changeKeep:
	}
}

// Ref refers to an object in the namespace of the referring object. It has no API version, which follows from the contract label of the
// kind's CRD. The zero Ref means none.
type Ref struct {
	Group, Kind, Name string
}

// IsZero reports whether the reference is the zero Ref.
func (r Ref) IsZero() bool { return r == Ref{} }

// GroupKind returns the group and kind of the reference.
func (r Ref) GroupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// NodeRef is a matched Node: its name, and the UID that distinguishes it from a later Node of the same name.
type NodeRef struct {
	Name string
	UID  types.UID
}

// RefField locates a reference of one of two shapes: apiGroup, kind and name, as in Cluster API since v1beta2, or apiVersion, kind,
// namespace and name, as before. Members of the other shape are zero Fields. Absent members read as empty.
type RefField struct{ Group, APIVersion, Kind, Namespace, Name Field[string] }

// RefAt returns the RefField with apiGroup, kind and name at the given keys.
func RefAt(segments ...string) RefField {
	member := memberOf(segments)
	return RefField{Group: member("apiGroup"), Kind: member("kind"), Name: member("name")}
}

// objectRefAt returns the RefField with apiVersion, kind, namespace and name at the given keys.
func objectRefAt(segments ...string) RefField {
	member := memberOf(segments)
	return RefField{APIVersion: member("apiVersion"), Kind: member("kind"), Namespace: member("namespace"), Name: member("name")}
}

func memberOf(segments []string) func(string) Field[string] {
	return func(name string) Field[string] { return At[string](append(slices.Clip(segments), name)...) }
}

// exists reports whether the layout has a place for this reference.
func (f RefField) exists() bool { return !f.Name.path.IsZero() }

func (r *exchange) ref(f RefField) Ref {
	ref := Ref{Group: text(r, f.Group), Kind: text(r, f.Kind), Name: text(r, f.Name)}
	if group, _, found := strings.Cut(text(r, f.APIVersion), "/"); found {
		ref.Group = group
	}
	return ref
}

// set writes the reference. version, without the group, is used by shapes with an apiVersion; the namespace is that of the object. It fails
// as Set does.
func (f RefField) set(obj map[string]any, ref Ref, version string) error {
	namespace, _, err := metaNamespace.Get(obj)
	if err != nil {
		return err
	}
	w := exchange{obj: obj, writes: true}
	put(&w, f.Group, orClear(SetTo(ref.Group)))
	if !f.APIVersion.path.IsZero() {
		put(&w, f.APIVersion, SetTo(schema.GroupVersion{Group: ref.Group, Version: version}.String()))
		put(&w, f.Namespace, orClear(SetTo(namespace)))
	}
	put(&w, f.Kind, SetTo(ref.Kind))
	put(&w, f.Name, SetTo(ref.Name))
	return w.err
}

// Address is one address of a machine, with the fields that InfraMachines and Machines share.
type Address struct {
	// Type is Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS.
	Type string
	// Address is the text of the address.
	Address string
}

// readAddress requires both members, which may be empty.
func readAddress(e entry) (Address, error) {
	address := Address{Type: e.text("type"), Address: e.text("address")}
	for _, key := range []string{"type", "address"} {
		if _, found := e.values[key]; !found {
			e.fail(key, "string", "nothing")
		}
	}
	return address, e.err
}

func addressContent(a Address) any { return map[string]any{"type": a.Type, "address": a.Address} }

// entryPath returns the path of an entry of a list, or of a value inside that entry.
func entryPath(list Path, i int, more ...string) Path {
	return NewPath(append(append(list.Segments(), strconv.Itoa(i)), more...)...)
}
