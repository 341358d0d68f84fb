package contract

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrOtherType matches the error of an adapter that is given an object of another Go type than it was made for.
var ErrOtherType = errors.New("object of another Go type")

// Object is an API object: the same methods as controller-runtime's client.Object, without importing it.
type Object interface {
	metav1.Object
	runtime.Object
}

// Adapter translates between objects of some shape and neutral values: S is a state such as MachineState, U an update such
// as MachineUpdate. Safe for concurrent use.
type Adapter[S, U any] interface {
	// Read fills every field of the state. It neither changes nor keeps the object, but the state may share the object's
	// strings, maps and slices, and may keep its own where they say the same. Discard the state after an error.
	Read(obj Object, into *S) error
	// Write changes what the update sets or clears and nothing else; it does not change the update. What was written is
	// read back equal, times to the second. It must not fail for a value that the shape has no place for: such state goes
	// to annotations. Discard the object after an error.
	Write(obj Object, update U) error
}

// KindOf is a kind of object and how to read it. Every field but Resource, Finalizer and StatusSubresource is needed. Use it by the names
// Kind, MachineSetKind, MachineDeploymentKind, MachinePoolKind and HealthCheckKind.
type KindOf[S, U any] struct {
	// GVK is used for owner references and events, because cached objects of Go types have none.
	GVK schema.GroupVersionKind
	// Resource is what the kind is called in paths and in rights; default the plural of CRDName, such as machines for Machine.
	Resource string
	// New and NewList return empty objects, with the GVK set when they are unstructured.
	New     func() Object
	NewList func() runtime.Object
	// Adapter translates the objects that New returns.
	Adapter Adapter[S, U]
	// Finalizer is what the reconciler of the kind stores in each object, and removes when all that belongs to the object is gone. A
	// MachineSet's reconciler gives that of its kind of Machine to each that it creates. Default: the constant of the reconciler's package,
	// MachineFinalizer for Machines. NoFinalizer is for Machines that no reconciler of this library deletes. Health checks need none.
	//
	// MachineFinalizer has no slash, so that the API server warns at the first write of every Machine: "prefer a domain-qualified finalizer
	// name". controller-runtime logs that unless the rest.Config has its own WarningHandlerWithContext; Cluster API ignores the warning.
	Finalizer string
	// StatusSubresource says that status is written through its own endpoint. Without one, generations count status writes
	// too, so that reconcilers record none.
	StatusSubresource bool
}

// NoFinalizer is the KindOf.Finalizer of Machines that get none.
const NoFinalizer = "-"

// GroupResource is what the kind is called in paths and in rights.
func (k KindOf[S, U]) GroupResource() schema.GroupResource {
	resource := ResourceOf(k.GVK.GroupKind())
	resource.Resource = cmp.Or(k.Resource, resource.Resource)
	return resource
}

// layout is a table of fields for one kind of object in one shape.
type layout[S, U any] interface {
	read(obj map[string]any, into *S) error
	write(obj map[string]any, update U) error
}

// Unstructured returns the Kind of objects that are read and written as unstructured content through a layout: a *MachineLayout,
// *MachineSetLayout, *MachineDeploymentLayout, *MachinePoolLayout, *HealthCheckLayout or *ProvidedMachineLayout. It keeps the layout, which
// must not change afterwards; without one the kind has no Adapter, and every reconciler refuses it. The adapter fails with ErrOtherType for
// objects of Go types.
// StatusSubresource is true: set it to false for a CRD without one.
func Unstructured[S, U any](gvk schema.GroupVersionKind, table layout[S, U]) KindOf[S, U] {
	kind := KindOf[S, U]{
		GVK: gvk,
		New: func() Object {
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(gvk)
			return obj
		},
		NewList: func() runtime.Object {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			return list
		},
		StatusSubresource: true,
	}
	if v := reflect.ValueOf(table); v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		kind.Adapter = layoutAdapter[S, U]{layout: table}
	}
	return kind
}

// typed returns an object in its Go type.
func typed[T Object](obj Object) (T, error) {
	own, ok := obj.(T)
	if !ok {
		return own, fmt.Errorf("%w: want %T, got %T", ErrOtherType, own, obj)
	}
	return own, nil
}

// bothTyped returns two objects in their Go types.
func bothTyped[A, B Object](a, b Object) (A, B, error) {
	x, err := typed[A](a)
	y, err2 := typed[B](b)
	return x, y, errors.Join(err, err2)
}

type layoutAdapter[S, U any] struct{ layout layout[S, U] }

func (a layoutAdapter[S, U]) Read(obj Object, into *S) error {
	u, err := typed[*unstructured.Unstructured](obj)
	if err == nil {
		err = a.layout.read(u.Object, into)
	}
	return about("", obj, err)
}

func (a layoutAdapter[S, U]) Write(obj Object, update U) error {
	u, err := typed[*unstructured.Unstructured](obj)
	if err == nil {
		if u.Object == nil {
			u.Object = map[string]any{}
		}
		err = a.layout.write(u.Object, update)
	}
	return about("", obj, err)
}

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
// No function may be nil: reconcilers refuse the Kind. Types must be in the scheme of the manager. Leave out what is empty when the type is
// encoded (omitempty, omitzero, or a pointer), as in every Kubernetes type: schemas of CRDs refuse null.
func NewTyped[T Object, S, U any](gvk schema.GroupVersionKind, newObject func() T, newList func() runtime.Object,
	read func(T, *S) error, write func(T, U) error,
) KindOf[S, U] {
	return kindOfType(gvk, newObject, newList, typedAdapter[T, S, U]{kind: gvk.Kind, read: read, write: write})
}

func kindOfType[T Object, S, U any](
	gvk schema.GroupVersionKind, newObject func() T, newList func() runtime.Object, adapter typedAdapter[T, S, U],
) KindOf[S, U] {
	kind := KindOf[S, U]{GVK: gvk, NewList: newList, StatusSubresource: true}
	if newObject != nil {
		kind.New = func() Object { return newObject() }
	}
	if adapter.read != nil && adapter.write != nil {
		kind.Adapter = adapter
	}
	return kind
}

// NewTypedKeeping is NewTyped for a read function that takes lists again. The state that it fills is not zero: it is as an earlier read
// left it, perhaps one of another object. Read sets every field, and may keep a list that says the same (Converted), so that reading an
// unchanged object allocates nothing. It must not change such a list, because the earlier state may have been handed out.
func NewTypedKeeping[T Object, S, U any](gvk schema.GroupVersionKind, newObject func() T, newList func() runtime.Object,
	read func(T, *S) error, write func(T, U) error,
) KindOf[S, U] {
	return kindOfType(gvk, newObject, newList, typedAdapter[T, S, U]{kind: gvk.Kind, read: read, write: write, keeps: true})
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
	own, err := typed[T](obj)
	if err == nil {
		if !a.keeps { // a state is used again for another object
			var zero S
			*into = zero
		}
		err = a.read(own, into)
	}
	return about(a.kind, obj, err)
}

func (a typedAdapter[T, S, U]) Write(obj Object, update U) error {
	own, err := typed[T](obj)
	if err == nil {
		err = a.write(own, update)
	}
	return about(a.kind, obj, err)
}

// UpdatedConditions returns a list of conditions as the Conditions and RemoveConditions of an update leave it: upserted and
// removed by type, in the order of the list, with new ones before the first with a later name. An empty reason becomes
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
		at = slices.IndexFunc(updated, func(old metav1.Condition) bool { return old.Type > c.Type })
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

// Kinds are the kinds of one API group for Machines and what keeps a number of them, and how they are made. The reconciler of sets needs
// Set, Machine and Maker; that of deployments needs Deployment, Set, Machine and SetMaker.
type Kinds struct {
	Deployment MachineDeploymentKind
	Set        MachineSetKind
	Machine    Kind
	// Check is that of checks of such Machines.
	Check HealthCheckKind
	// Maker makes Machines of that kind for sets of that kind, and SetMaker such sets for deployments of that kind.
	Maker    MachineMaker
	SetMaker MachineSetMaker
	// AllRevisions: a deployment without a limit of the history keeps all old sets, as Gardener's do; otherwise it keeps one.
	AllRevisions bool
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in a version, V1Beta1 or V1Beta2; for any other the error matches ErrUnknownVersion.
func ClusterAPI(v Version) (Kinds, error) {
	of := LayoutsOf(v)
	if of.Machine == nil {
		return Kinds{}, fmt.Errorf("%w: the kinds of cluster.x-k8s.io have %s and %s, not %q", ErrUnknownVersion, V1Beta1, V1Beta2, v)
	}
	kinds := kindsOf("cluster.x-k8s.io", string(v), of)
	kinds.Check = Unstructured(kinds.Machine.GVK.GroupVersion().WithKind("MachineHealthCheck"), of.HealthCheck)
	return kinds, nil
}

// Kubermatic returns the kinds of cluster.k8s.io/v1alpha1. The CRD of its Machines has no status subresource.
func Kubermatic() Kinds {
	kinds := kindsOf("cluster.k8s.io", "v1alpha1", KubermaticLayouts())
	kinds.Machine.StatusSubresource = false
	return kinds
}

// Gardener returns the kinds of machine.sapcloud.io/v1alpha1.
func Gardener() Kinds {
	kinds := kindsOf("machine.sapcloud.io", "v1alpha1", GardenerLayouts())
	kinds.AllRevisions = true
	return kinds
}

func kindsOf(group, version string, of Layouts) Kinds {
	gvk := schema.GroupVersion{Group: group, Version: version}.WithKind
	return Kinds{
		Deployment: Unstructured(gvk("MachineDeployment"), of.MachineDeployment), Set: Unstructured(gvk("MachineSet"), of.MachineSet),
		Machine:  Unstructured(gvk("Machine"), of.Machine),
		Maker:    UnstructuredMaker(of.MachineSet, gvk("Machine"), of.Machine),
		SetMaker: UnstructuredSetMaker(of.MachineDeployment, gvk("MachineSet"), of.MachineSet),
	}
}
