package contract

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Metadata holds the metadata of an object. Maps and slices are read-only views.
type Metadata struct {
	Key             types.NamespacedName
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Created         time.Time
	// Deleting is when deletion was requested, zero otherwise.
	Deleting            time.Time
	Labels, Annotations map[string]string
	Finalizers          []string
	OwnerReferences     []metav1.OwnerReference
}

// Paused reports whether the object has PausedAnnotation. Rule: contract page "Paused".
func (m *Metadata) Paused() bool {
	_, paused := m.Annotations[PausedAnnotation]
	return paused
}

// From fills every field from an object of a Go type, for adapters of such types (NewTyped). It shares maps and slices with the object.
func (m *Metadata) From(obj metav1.Object) {
	*m = Metadata{
		Key: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}, UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().UTC(),
		Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), Finalizers: obj.GetFinalizers(), OwnerReferences: obj.GetOwnerReferences(),
	}
	if at := obj.GetDeletionTimestamp(); at != nil {
		m.Deleting = at.UTC()
	}
}

// MetadataUpdate holds the changes of a pass to the metadata of an object.
type MetadataUpdate struct {
	Finalizers          Change[[]string]
	OwnerReferences     Change[[]metav1.OwnerReference]
	Labels, Annotations map[string]Change[string]
}

// ApplyTo changes an object of a Go type, for adapters of such types (NewTyped). It replaces the maps of the object with changed copies, so
// that other objects that share the maps do not change.
func (u MetadataUpdate) ApplyTo(obj metav1.Object) {
	if names, set := u.Finalizers.Value(); set || u.Finalizers.Clears() {
		obj.SetFinalizers(slices.Clone(names))
	}
	if owners, set := u.OwnerReferences.Value(); set || u.OwnerReferences.Clears() {
		obj.SetOwnerReferences(slices.Clone(owners))
	}
	if len(u.Labels) > 0 {
		obj.SetLabels(changedTexts(obj.GetLabels(), u.Labels))
	}
	if len(u.Annotations) > 0 {
		obj.SetAnnotations(changedTexts(obj.GetAnnotations(), u.Annotations))
	}
}

func changedTexts(have map[string]string, changes map[string]Change[string]) map[string]string {
	texts := maps.Clone(have)
	if texts == nil {
		texts = map[string]string{}
	}
	for key, change := range changes {
		if text, set := change.Value(); set {
			texts[key] = text
		} else if change.Clears() {
			delete(texts, key)
		}
	}
	return texts
}

// Fields of the metadata of any kind.
var (
	metaNamespace       = At[string]("metadata", "namespace")
	metaName            = At[string]("metadata", "name")
	metaUID             = At[string]("metadata", "uid")
	metaResourceVersion = At[string]("metadata", "resourceVersion")
	metaGeneration      = At[int64]("metadata", "generation")
	metaCreated         = At[time.Time]("metadata", "creationTimestamp")
	metaDeleting        = At[time.Time]("metadata", "deletionTimestamp")
	metaFinalizers      = At[[]string]("metadata", "finalizers")
	metaLabels          = At[map[string]string]("metadata", "labels")
	metaAnnotations     = At[map[string]string]("metadata", "annotations")
	metaOwners          = At[[]metav1.OwnerReference]("metadata", "ownerReferences")
)

// metadata fails for unreadable metadata, which unstructured's accessors treat as absent: a Machine whose annotations cannot be read must
// not be treated as unpaused.
func (x *exchange) metadata(state *Metadata, u *MetadataUpdate) {
	state.Key = types.NamespacedName{Namespace: text(x, metaNamespace), Name: text(x, metaName)}
	state.UID = types.UID(text(x, metaUID))
	load(x, metaResourceVersion, &state.ResourceVersion)
	load(x, metaGeneration, &state.Generation)
	load(x, metaCreated, &state.Created)
	load(x, metaDeleting, &state.Deleting)
	load(x, metaLabels, &state.Labels)
	load(x, metaAnnotations, &state.Annotations)
	plain(x, metaFinalizers, &state.Finalizers, u.Finalizers)
	plain(x, metaOwners, &state.OwnerReferences, u.OwnerReferences)
	if x.writes { // ranging over the maps allocates
		x.putTexts("labels", u.Labels)
		x.putTexts("annotations", u.Annotations)
	}
}

// textMapOf returns before while the content is equal, and nil for null.
func textMapOf(path Path, raw any, before map[string]string) (map[string]string, error) {
	if raw == nil {
		return nil, nil
	}
	values, ok := raw.(map[string]any)
	if !ok {
		return nil, &FieldError{Path: path, Want: "object", Got: typeName(raw)}
	}
	if before != nil && sameTexts(before, values) {
		return before, nil
	}
	texts := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) { // sorted, so that of several wrong entries the same one is reported
		text, ok := values[key].(string)
		if !ok {
			return nil, &FieldError{Path: path.below(key), Want: "string", Got: typeName(values[key])}
		}
		texts[key] = text
	}
	return texts, nil
}

func sameTexts(have map[string]string, values map[string]any) bool {
	if len(have) != len(values) {
		return false
	}
	for key, text := range have {
		if raw, found := values[key]; !found || !isText(raw, text) {
			return false
		}
	}
	return true
}

// putTexts writes one of the two maps of the metadata, in sorted order so that the error is always the same.
func (x *exchange) putTexts(name string, changes map[string]Change[string]) {
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		put(x, At[string]("metadata", name, key), changes[key])
	}
}

// IsOwner reports whether ref refers to owner, by its UID or by its group, kind and name. A reference with another UID was restored from a
// backup: a namespace has only one object of that name. Rule: controller-runtime's SetControllerReference.
func IsOwner(ref, owner metav1.OwnerReference) bool {
	return ref.UID == owner.UID || (ref.Name == owner.Name && groupKind(ref) == groupKind(owner))
}

// RestoredOwner reports whether refs contain the owner with another UID. The garbage collector deletes objects without another owner.
func RestoredOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference) bool {
	return slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return IsOwner(ref, owner) && ref.UID != owner.UID })
}

// WithOwner returns owner references with owner added. It replaces the references that match IsOwner; the others keep their order.
func WithOwner(refs []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	owners, placed := make([]metav1.OwnerReference, 0, len(refs)+1), false
	for _, ref := range refs {
		switch {
		case !IsOwner(ref, owner):
			owners = append(owners, ref)
		case !placed:
			owners, placed = append(owners, owner), true
		}
	}
	if !placed {
		owners = append(owners, owner)
	}
	return owners
}

// SameOwners reports whether two lists have the same owner references in any order.
func SameOwners(a, b []metav1.OwnerReference) bool {
	missing := func(list []metav1.OwnerReference) func(metav1.OwnerReference) bool {
		return func(ref metav1.OwnerReference) bool {
			return !slices.ContainsFunc(list, func(other metav1.OwnerReference) bool { return equalOwners(ref, other) })
		}
	}
	return len(a) == len(b) && !slices.ContainsFunc(a, missing(b)) && !slices.ContainsFunc(b, missing(a))
}

func equalOwners(a, b metav1.OwnerReference) bool {
	isTrue := func(b *bool) bool { return b != nil && *b }
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		isTrue(a.Controller) == isTrue(b.Controller) && isTrue(a.BlockOwnerDeletion) == isTrue(b.BlockOwnerDeletion)
}

func groupKind(ref metav1.OwnerReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}

// ownersOf returns before while the content is equal.
func ownersOf(path Path, raw any, before []metav1.OwnerReference) ([]metav1.OwnerReference, error) {
	return entriesAt(path, raw, before, func(e entry) (metav1.OwnerReference, error) {
		var had metav1.OwnerReference
		if e.index < len(before) {
			had = before[e.index]
		}
		owner := metav1.OwnerReference{
			APIVersion: e.text("apiVersion"), Kind: e.text("kind"), Name: e.text("name"), UID: types.UID(e.text("uid")),
			Controller: e.flag("controller", had.Controller), BlockOwnerDeletion: e.flag("blockOwnerDeletion", had.BlockOwnerDeletion),
		}
		return owner, e.err
	})
}

// flag returns a bool member, nil when it is missing or null. It returns before while it has the same value, because entriesOf compares
// pointers.
func (e *entry) flag(key string, before *bool) *bool {
	raw := e.values[key]
	flag, ok := raw.(bool)
	switch {
	case raw == nil:
		return nil
	case !ok:
		e.fail(key, "bool", typeName(raw))
	case before != nil && *before == flag:
		return before
	}
	return new(flag)
}

func ownerContent(o metav1.OwnerReference) any {
	values := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": string(o.UID)}
	if o.Controller != nil {
		values["controller"] = *o.Controller
	}
	if o.BlockOwnerDeletion != nil {
		values["blockOwnerDeletion"] = *o.BlockOwnerDeletion
	}
	return values
}
