package contract

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errNoFunctions = errors.New("the Kind was made without functions that read and write")

// NewTyped returns the Kind of an embedder's own Go type. newObject and newList return empty objects; read and write are
// the two methods of an Adapter for that type. The state that read fills is zero before, so what the type has no field for
// may be left out. Metadata.From, SomeAt, MetadataUpdate.ApplyTo, Change.ApplyTo and UpdatedConditions do what is the same
// for every type; the last three never change what an object in a cache may share. The adapter fails with ErrOtherType for
// other objects, and its errors name the object. StatusSubresource is true: set it to false for a CRD without one.
//
// What a MachineUpdate changes goes where the type has a field for it. ProviderID and DataSecretName are written with the metadata
// and the spec, everything else with the status too: a field for one of these two must not be in the status. What is left out is forgotten
// after each pass. A Node is drained and deleted only for a Machine that says ProviderID (read may make it of something else) and Node with
// its UID. CheckKind says in a test what a type forgets; reconcilers refuse a Kind that forgets what they need.
//
// Cluster API's phase Running asks for InfrastructureReady. For a type without a field for it, read says so, for instance when
// there is a provider ID, or a step of your own calls Scope.SetInfrastructureReady of package machine in every pass.
//
// No function may be nil. Types must be in the scheme of the manager. Leave out what is empty when the type is encoded (omitempty,
// omitzero, or a pointer), as in every Kubernetes type: schemas of CRDs refuse null.
func NewTyped[T Object, S, U any](gvk schema.GroupVersionKind, newObject func() T, newList func() runtime.Object,
	read func(T, *S) error, write func(T, U) error,
) KindOf[S, U] {
	kind := KindOf[S, U]{
		GVK:               gvk,
		NewList:           newList,
		Adapter:           typedAdapter[T, S, U]{kind: gvk.Kind, read: read, write: write},
		StatusSubresource: true,
	}
	if newObject != nil { // without, New stays nil, which reconcilers refuse
		kind.New = func() Object { return newObject() }
	}
	return kind
}

// NewTypedKeeping is NewTyped for a read function that takes lists again. The state that it fills is not zero: it is as an earlier read
// left it, perhaps one of another object. Read sets every field, and may keep a list that says the same (Converted), so that reading an
// unchanged object allocates nothing. It must not change such a list, because the earlier state may have been handed out.
func NewTypedKeeping[T Object, S, U any](gvk schema.GroupVersionKind, newObject func() T, newList func() runtime.Object,
	read func(T, *S) error, write func(T, U) error,
) KindOf[S, U] {
	kind := NewTyped(gvk, newObject, newList, read, write)
	kind.Adapter = typedAdapter[T, S, U]{kind: gvk.Kind, read: read, write: write, keeps: true}
	return kind
}

// Converted returns the list that convert makes of items, nil of none. While it is the one that before holds, it returns before, clipped,
// and allocates nothing. Neither list is changed.
func Converted[A any, B comparable](items []A, before []B, convert func(A) B) []B {
	if len(items) == 0 {
		return nil
	}
	same := 0
	for same < len(items) && same < len(before) && before[same] == convert(items[same]) {
		same++
	}
	if same == len(items) {
		return before[:same:same]
	}
	fresh := append(make([]B, 0, len(items)), before[:same]...)
	for _, item := range items[same:] {
		fresh = append(fresh, convert(item))
	}
	return fresh
}

type typedAdapter[T Object, S, U any] struct {
	kind  string
	read  func(T, *S) error
	write func(T, U) error
	keeps bool // read gets the state as an earlier read left it
}

func (a typedAdapter[T, S, U]) Read(obj Object, into *S) error {
	typed, err := a.typed(obj)
	if err == nil {
		if !a.keeps { // a state is used again for another object
			var zero S
			*into = zero
		}
		err = a.read(typed, into)
	}
	return a.named(obj, err)
}

func (a typedAdapter[T, S, U]) Write(obj Object, update U) error {
	typed, err := a.typed(obj)
	if err == nil {
		err = a.write(typed, update)
	}
	return a.named(obj, err)
}

func (a typedAdapter[T, S, U]) typed(obj Object) (T, error) {
	typed, ok := obj.(T)
	switch {
	case !ok:
		return typed, fmt.Errorf("%w: want %T, got %T", ErrOtherType, typed, obj)
	case a.read == nil || a.write == nil:
		return typed, errNoFunctions
	}
	return typed, nil
}

func (a typedAdapter[T, S, U]) named(obj Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s/%s: %w", a.kind, obj.GetNamespace(), obj.GetName(), err)
}

// UpdatedConditions returns a list of conditions as the Conditions and RemoveConditions of an update leave it: upserted and
// removed by type, in the order of the list, with new ones where Cluster API would sort them. An empty reason becomes
// ReasonNotReported, because the API server refuses it. The lists that are passed in do not change and are not kept; without
// conditions it is nil.
func UpdatedConditions(have, upsert []metav1.Condition, remove []string) []metav1.Condition {
	updated := make([]metav1.Condition, 0, len(have)+len(upsert))
	for i := range have {
		if !slices.Contains(remove, have[i].Type) {
			updated = append(updated, have[i])
		}
	}
	for _, c := range upsert {
		if slices.Contains(remove, c.Type) {
			continue
		}
		if c.Reason == "" {
			c.Reason = ReasonNotReported
		}
		at := slices.IndexFunc(updated, func(old metav1.Condition) bool { return old.Type == c.Type })
		if at >= 0 {
			updated[at] = c
			continue
		}
		at = slices.IndexFunc(updated, func(old metav1.Condition) bool { return shapeMetaV1.compareConditions(c.Type, old.Type) < 0 })
		if at < 0 {
			at = len(updated)
		}
		updated = slices.Insert(updated, at, c)
	}
	if len(updated) == 0 {
		return nil
	}
	return updated
}
