package contract

import (
	"cmp"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrOtherType matches the error of an adapter that is given an object of another Go type than it was made for.
var ErrOtherType = errors.New("object of another Go type")

var errNoLayout = errors.New("the Kind was made without a layout")

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
	missing() bool
}

// Unstructured returns the Kind of objects that are read and written as unstructured content through a layout: a *MachineLayout,
// *MachineSetLayout, *MachineDeploymentLayout, *MachinePoolLayout, *HealthCheckLayout or *ProvidedMachineLayout. It keeps the layout, which
// must not change afterwards. Its adapter fails with ErrOtherType for objects of Go types.
// StatusSubresource is true: set it to false for a CRD without one.
func Unstructured[S, U any](gvk schema.GroupVersionKind, table layout[S, U]) KindOf[S, U] {
	return KindOf[S, U]{
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
		Adapter:           layoutAdapter[S, U]{layout: table},
		StatusSubresource: true,
	}
}

type layoutAdapter[S, U any] struct{ layout layout[S, U] }

func (a layoutAdapter[S, U]) content(obj Object) (*unstructured.Unstructured, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s/%s: %w: want an unstructured object, got %T", obj.GetNamespace(), obj.GetName(), ErrOtherType, obj)
	}
	if a.layout == nil || a.layout.missing() {
		return nil, fmt.Errorf("%s: %w", describe(u), errNoLayout)
	}
	return u, nil
}

func (a layoutAdapter[S, U]) Read(obj Object, into *S) error {
	u, err := a.content(obj)
	if err != nil {
		return err
	}
	if err := a.layout.read(u.Object, into); err != nil {
		return fmt.Errorf("%s: %w", describe(u), err)
	}
	return nil
}

func (a layoutAdapter[S, U]) Write(obj Object, update U) error {
	u, err := a.content(obj)
	if err != nil {
		return err
	}
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	if err := a.layout.write(u.Object, update); err != nil {
		return fmt.Errorf("%s: %w", describe(u), err)
	}
	return nil
}
