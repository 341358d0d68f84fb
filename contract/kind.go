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

// ErrOtherType matches the error of an adapter for an object of a Go type that it does not support.
var ErrOtherType = errors.New("object of another Go type")

// Object is an API object. It has the methods of controller-runtime's client.Object without importing that package.
type Object interface {
	metav1.Object
	runtime.Object
}

// Adapter translates between objects of some shape and neutral values: S is a state such as MachineState, U an update such as
// MachineUpdate. Safe for concurrent use.
type Adapter[S, U any] interface {
	// Read fills every field of the state. It neither changes nor retains the object. The state may share the object's strings, maps and
	// slices, and may reuse its previous ones when they are equal. Discard the state after an error.
	Read(obj Object, into *S) error
	// Write applies the update and changes nothing else; it does not change the update. A later Read returns the same values, times to the
	// second. Write must not fail for a value without a field in the shape: such state goes to annotations. Discard the object after an error.
	Write(obj Object, update U) error
}

// KindOf describes a kind of object and how to read and write it. Every field but Resource, Finalizer and StatusSubresource is required.
// Use it by the names Kind, MachineSetKind, MachineDeploymentKind, MachinePoolKind and HealthCheckKind.
type KindOf[S, U any] struct {
	// GVK is used for owner references and events, because cached objects of Go types have no GVK.
	GVK schema.GroupVersionKind
	// Resource is the resource name in API paths and RBAC rules; default the plural of CRDName, such as machines for Machine.
	Resource string
	// New and NewList return empty objects, with the GVK set when they are unstructured.
	New     func() Object
	NewList func() runtime.Object
	// Adapter translates the objects that New returns.
	Adapter Adapter[S, U]
	// Finalizer is the finalizer that the reconciler of the kind sets on each object, and removes when everything that belongs to the object
	// is gone. A MachineSet's reconciler also sets the finalizer of its Machine kind on Machines that it creates. Default: the constant of the
	// reconciler's package, such as MachineFinalizer for Machines. Use NoFinalizer for Machines that this library does not delete. Health
	// checks need none.
	//
	// MachineFinalizer has no slash, so the API server warns at the first write of every Machine: "prefer a domain-qualified finalizer name".
	// controller-runtime logs the warning unless the rest.Config has its own WarningHandlerWithContext; Cluster API ignores it.
	Finalizer string
	// StatusSubresource is true when status is written through its own endpoint. Otherwise status writes increase the generation too, so
	// reconcilers record no observed generation.
	StatusSubresource bool
}

// NoFinalizer is the KindOf.Finalizer of Machines without a finalizer.
const NoFinalizer = "-"

// GroupResource returns the resource of the kind in API paths and RBAC rules.
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
// *MachineSetLayout, *MachineDeploymentLayout, *MachinePoolLayout, *HealthCheckLayout or *ProvidedMachineLayout. It retains the layout,
// which must not change afterwards. With a nil layout the kind has no Adapter, and every reconciler rejects it. The adapter returns
// ErrOtherType for objects of Go types. StatusSubresource is true: set it to false for a CRD without one.
func Unstructured[S, U any](gvk schema.GroupVersionKind, table layout[S, U]) KindOf[S, U] {
	newObject := func() *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		return obj
	}
	newList := func() runtime.Object {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return list
	}
	adapter := typedAdapter[*unstructured.Unstructured, S, U]{keeps: true}
	if v := reflect.ValueOf(table); v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		adapter.read = func(obj *unstructured.Unstructured, into *S) error { return table.read(obj.Object, into) }
		adapter.write = func(obj *unstructured.Unstructured, update U) error {
			if obj.Object == nil {
				obj.Object = map[string]any{}
			}
			return table.write(obj.Object, update)
		}
	}
	return kindOfType(gvk, newObject, newList, adapter)
}

func typed[T Object](obj Object) (T, error) {
	own, ok := obj.(T)
	if !ok {
		return own, fmt.Errorf("%w: want %T, got %T", ErrOtherType, own, obj)
	}
	return own, nil
}

func bothTyped[A, B Object](a, b Object) (A, B, error) {
	x, err := typed[A](a)
	y, err2 := typed[B](b)
	return x, y, errors.Join(err, err2)
}

// NewTyped returns the Kind of an embedder's own Go type. newObject and newList return empty objects; read and write are the two methods of
// an Adapter for that type. The state passed to read is zero, so read can skip members without a field in the type. Metadata.From, SomeAt,
// MetadataUpdate.ApplyTo, Change.ApplyTo and UpdatedConditions do the work that is the same for every type; the last three never change
// data that an object in a cache may share. The adapter returns ErrOtherType for other objects, and its errors name the object.
// StatusSubresource is true: set it to false for a CRD without one.
//
// write stores the changes of a MachineUpdate for which the type has a field. ProviderID and DataSecretName are written with the metadata
// and the spec, everything else with the status too, so a field for one of these two must not be in the status. A member that is not stored
// is lost after each pass. A Node is drained and deleted only for a Machine with a ProviderID (read may derive it) and a Node with its UID.
// CheckKind reports in a test which members a type does not store; reconcilers reject a Kind that does not store the required ones.
//
// Cluster API's phase Running requires InfrastructureReady. For a type without such a field, read must set it, for instance when there is a
// provider ID, or a custom step must call Scope.SetInfrastructureReady of package machine in every pass.
//
// No function may be nil: reconcilers reject the Kind. Types must be in the scheme of the manager. Fields of the type must be omitted when
// empty (omitempty, omitzero, or a pointer), as in every Kubernetes type: schemas of CRDs reject null.
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

// NewTypedReusing is NewTyped for a read function that reuses lists. The state passed to read is not zero: it is the result of an earlier
// read, perhaps of another object. read must set every field, and may reuse an equal list (Converted), so that reading an unchanged object
// allocates nothing. It must not change such a list, because a caller may still use the earlier state.
func NewTypedReusing[T Object, S, U any](gvk schema.GroupVersionKind, newObject func() T, newList func() runtime.Object,
	read func(T, *S) error, write func(T, U) error,
) KindOf[S, U] {
	return kindOfType(gvk, newObject, newList, typedAdapter[T, S, U]{kind: gvk.Kind, read: read, write: write, keeps: true})
}

// Converted returns the list of converted items, nil for no items. While it equals the start of before, Converted returns before, clipped,
// and allocates nothing. It changes neither list.
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
	kind  string // for errors; empty means that of the object
	read  func(T, *S) error
	write func(T, U) error
	keeps bool // read gets the result of an earlier read
}

func (a typedAdapter[T, S, U]) Read(obj Object, into *S) error {
	own, err := typed[T](obj)
	if err == nil {
		if !a.keeps { // states are reused for other objects
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

// UpdatedConditions returns a list of conditions with upsert and remove applied by type, in the order of the list. New conditions are
// inserted before the first one with a later name. An empty reason becomes ReasonNotReported, because the API server rejects it. The
// arguments are not changed or retained. The result is nil when no conditions remain.
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

// Kinds holds the kinds of one API group for Machines and their owners, with their makers. The reconciler of sets needs Set, Machine and
// Maker; the reconciler of deployments needs Deployment, Set, Machine and SetMaker.
type Kinds struct {
	Deployment MachineDeploymentKind
	Set        MachineSetKind
	Machine    Kind
	// Check is the kind of health checks of these Machines.
	Check HealthCheckKind
	// Maker makes Machines for sets, and SetMaker makes sets for deployments.
	Maker    MachineMaker
	SetMaker MachineSetMaker
	// AllRevisions is true when a deployment without a history limit retains all old sets, as Gardener's do; otherwise it retains one.
	AllRevisions bool
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in V1Beta1 or V1Beta2. For any other version the error matches ErrUnknownVersion.
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
