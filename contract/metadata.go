package contract

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Metadata is what every object says about itself. Maps and slices are read-only views.
type Metadata struct {
	Key             types.NamespacedName
	UID             types.UID
	ResourceVersion string
	Generation      int64
	Created         time.Time
	// Deleting is when deletion was asked for, zero while it was not.
	Deleting            time.Time
	Labels, Annotations map[string]string
	Finalizers          []string
	OwnerReferences     []metav1.OwnerReference
}

// Paused reports whether the object asks to be left alone. Rule: contract page "Paused".
func (m *Metadata) Paused() bool {
	_, paused := m.Annotations[PausedAnnotation]
	return paused
}

// From fills every field from an object of a Go type, for adapters of such types (NewTyped). It shares maps and slices
// with the object.
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

// MetadataUpdate is what a pass wants to change in the metadata of an object.
type MetadataUpdate struct {
	Finalizers          Change[[]string]
	OwnerReferences     Change[[]metav1.OwnerReference]
	Labels, Annotations map[string]Change[string]
}

// ApplyTo changes an object of a Go type, for adapters of such types (NewTyped). Maps of the object are replaced by
// changed copies, so that an object which shares them does not change.
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

// Where the metadata of an object is, whatever its kind.
var (
	metaNamespace       = At[string]("metadata", "namespace")
	metaName            = At[string]("metadata", "name")
	metaUID             = At[string]("metadata", "uid")
	metaResourceVersion = At[string]("metadata", "resourceVersion")
	metaGeneration      = At[int64]("metadata", "generation")
	metaCreated         = At[time.Time]("metadata", "creationTimestamp")
	metaDeleting        = At[time.Time]("metadata", "deletionTimestamp")
	metaFinalizers      = At[[]string]("metadata", "finalizers")
	metaLabels          = NewPath("metadata", "labels")
	metaAnnotations     = NewPath("metadata", "annotations")
	metaOwners          = NewPath("metadata", "ownerReferences")
)

// metadata is strict where unstructured's accessors call unreadable metadata absent: a Machine whose annotations cannot
// be read must not pass for one that is not paused.
func (r *reader) metadata(into *Metadata) {
	into.Key = types.NamespacedName{Namespace: text(r, metaNamespace), Name: text(r, metaName)}
	into.UID = types.UID(text(r, metaUID))
	into.ResourceVersion = text(r, metaResourceVersion)
	into.Generation = value(r, metaGeneration).Or(0)
	into.Created = r.time(metaCreated)
	into.Deleting = r.time(metaDeleting)
	into.Labels = r.textMap(metaLabels, into.Labels)
	into.Annotations = r.textMap(metaAnnotations, into.Annotations)
	into.Finalizers = r.texts(metaFinalizers, into.Finalizers)
	into.OwnerReferences = r.owners(into.OwnerReferences)
}

// textMap keeps the map that the state held before while it says the same.
func (r *reader) textMap(at Path, before map[string]string) map[string]string {
	raw := r.raw(at)
	if raw == nil {
		return nil
	}
	values, ok := raw.(map[string]any)
	if !ok {
		r.fail(&FieldError{Path: at, Want: "object", Got: typeName(raw)})
		return nil
	}
	if before != nil && sameTexts(before, values) {
		return before
	}
	texts := make(map[string]string, len(values))
	for key, value := range values {
		text, ok := value.(string)
		if !ok {
			r.fail(firstWrongText(at, values))
			return nil
		}
		texts[key] = text
	}
	return texts
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

// firstWrongText makes the error about several wrong entries the same one every time.
func firstWrongText(at Path, values map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, ok := values[key].(string); !ok {
			return &FieldError{Path: at.below(key), Want: "string", Got: typeName(values[key])}
		}
	}
	return nil
}

// writeMetadata writes what the update changes. An empty list is written as none.
func (w *writer) metadata(u MetadataUpdate) {
	putList(w, metaFinalizers.path, u.Finalizers, func(name string) any { return name })
	putList(w, metaOwners, u.OwnerReferences, ownerContent)
	w.textMap("labels", u.Labels)
	w.textMap("annotations", u.Annotations)
}

// textMap writes one of the two maps of the metadata, in sorted order so that the error is always the same.
func (w *writer) textMap(name string, changes map[string]Change[string]) {
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		put(w, At[string]("metadata", name, key), changes[key])
	}
}
