package contract

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Ref points at an object in the namespace of the object that holds it. The API version is not part of it: it follows
// from the contract label of the kind's CRD. The zero Ref is "none".
type Ref struct {
	Group, Kind, Name string
}

// IsZero reports whether the reference is not set at all.
func (r Ref) IsZero() bool { return r == Ref{} }

// GroupKind returns the kind that the reference points at.
func (r Ref) GroupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// NodeRef is a Node that was matched: its name, and the UID that tells it from a later Node of the same name.
type NodeRef struct {
	Name string
	UID  types.UID
}

// RefField is the place of a reference. It has one of two shapes: apiGroup, kind and name, as Cluster API writes since
// v1beta2, or apiVersion, kind, namespace and name before. Members of the other shape are zero Fields. Absent members read
// as empty.
type RefField struct{ Group, APIVersion, Kind, Namespace, Name Field[string] }

// RefAt returns the RefField of the shape apiGroup, kind, name at the given keys.
func RefAt(segments ...string) RefField {
	member := memberOf(segments)
	return RefField{Group: member("apiGroup"), Kind: member("kind"), Name: member("name")}
}

// objectRefAt returns the RefField of the shape apiVersion, kind, namespace, name at the given keys.
func objectRefAt(segments ...string) RefField {
	member := memberOf(segments)
	return RefField{APIVersion: member("apiVersion"), Kind: member("kind"), Namespace: member("namespace"), Name: member("name")}
}

func memberOf(segments []string) func(string) Field[string] {
	return func(name string) Field[string] { return At[string](append(slices.Clip(segments), name)...) }
}

// exists reports whether the layout has a place for this reference.
func (f RefField) exists() bool { return !f.Name.path.IsZero() }

func (r *reader) ref(f RefField) Ref {
	ref := Ref{Group: text(r, f.Group), Kind: text(r, f.Kind), Name: text(r, f.Name)}
	if group, _, found := strings.Cut(text(r, f.APIVersion), "/"); found {
		ref.Group = group
	}
	return ref
}

// set writes the reference. The version, without the group, is needed where the shape has an apiVersion; the namespace is
// the one of the object. It fails as Set does.
func (f RefField) set(obj map[string]any, ref Ref, version string) error {
	namespace, _, err := metaNamespace.Get(obj)
	if err != nil {
		return err
	}
	w := writer{obj: obj}
	put(&w, f.Group, orClear(SetTo(ref.Group)))
	if !f.APIVersion.path.IsZero() {
		put(&w, f.APIVersion, SetTo(schema.GroupVersion{Group: ref.Group, Version: version}.String()))
		put(&w, f.Namespace, orClear(SetTo(namespace)))
	}
	put(&w, f.Kind, SetTo(ref.Kind))
	put(&w, f.Name, SetTo(ref.Name))
	return w.err
}
