package contract

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// RefField is the place of a reference of three members: API group, kind and name. Absent members read as empty.
type RefField struct{ Group, Kind, Name Field[string] }

func refAt(segments ...string) RefField {
	member := func(name string) Field[string] {
		return At[string](append(slices.Clip(segments), name)...)
	}
	return RefField{Group: member("apiGroup"), Kind: member("kind"), Name: member("name")}
}

// MachineLayout says where a Machine of one shape keeps its state: the fields of MachineState and MachineUpdate with the
// same names. A zero Field is "no such place": it reads as absent and what is written there is lost, so give state that
// the schema has no field for an annotation (AtAnnotation). Timeouts are in seconds, times are RFC 3339 text. The tables
// that this package returns are shared: copy one to make a layout of your own.
type MachineLayout struct {
	ClusterName, ProviderID, DataSecretName   Field[string]
	Bootstrap, Infrastructure                 RefField
	NodeDrainSeconds, NodeDeletionSeconds     Field[int32]
	Phase, NodeName, NodeUID, FailureDomain   Field[string]
	BootstrapReady, InfrastructureReady       Field[bool]
	Addresses                                 AddressesField
	Conditions                                ConditionsField
	ObservedGeneration                        Field[int64]
	LastUpdated, DrainStarted, DrainedNodeUID Field[string]
}

var machineV1Beta2 = MachineLayout{
	ClusterName:         At[string]("spec", "clusterName"),
	ProviderID:          At[string]("spec", "providerID"),
	DataSecretName:      At[string]("spec", "bootstrap", "dataSecretName"),
	Bootstrap:           refAt("spec", "bootstrap", "configRef"),
	Infrastructure:      refAt("spec", "infrastructureRef"),
	NodeDrainSeconds:    At[int32]("spec", "deletion", "nodeDrainTimeoutSeconds"),
	NodeDeletionSeconds: At[int32]("spec", "deletion", "nodeDeletionTimeoutSeconds"),
	Phase:               At[string]("status", "phase"),
	NodeName:            At[string]("status", "nodeRef", "name"),
	NodeUID:             AtAnnotation[string](NodeUIDAnnotation),
	FailureDomain:       At[string]("status", "failureDomain"),
	BootstrapReady:      At[bool]("status", "initialization", "bootstrapDataSecretCreated"),
	InfrastructureReady: At[bool]("status", "initialization", "infrastructureProvisioned"),
	Addresses:           AddressesAt("status", "addresses"),
	Conditions:          ConditionsAt("status", "conditions"),
	ObservedGeneration:  At[int64]("status", "observedGeneration"),
	LastUpdated:         At[string]("status", "lastUpdated"),
	DrainStarted:        At[string]("status", "deletion", "nodeDrainStartTime"),
	DrainedNodeUID:      AtAnnotation[string](DrainedAnnotation),
}

// MachineV1Beta2 returns the layout of Machine in cluster.x-k8s.io/v1beta2. What that schema has no field for, the UID of
// the Node and the UID of the drained Node, is in annotations. The table is shared and must not be changed.
func MachineV1Beta2() *MachineLayout { return &machineV1Beta2 }

// Unstructured returns the Kind of Machines that are read and written as unstructured objects through a layout. It keeps
// the layout, which must not change afterwards. Its adapter fails for objects of Go types; StatusSubresource is true.
func Unstructured(gvk schema.GroupVersionKind, layout *MachineLayout) Kind {
	return Kind{
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
		Adapter:           layoutAdapter{layout: layout},
		StatusSubresource: true,
	}
}

type layoutAdapter struct{ layout *MachineLayout }

func (a layoutAdapter) Read(obj Object, into *MachineState) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%s/%s: want an unstructured object, got %T", obj.GetNamespace(), obj.GetName(), obj)
	}
	if a.layout == nil {
		return fmt.Errorf("%s: %w", describe(u), errNoLayout)
	}
	err := readMetadata(u, into)
	if err == nil {
		err = a.layout.read(u.Object, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", describe(u), err)
	}
	return nil
}

func (l *MachineLayout) read(obj map[string]any, into *MachineState) error {
	r := reader{obj: obj}
	into.ClusterName = text(&r, l.ClusterName)
	into.ProviderID = text(&r, l.ProviderID)
	into.DataSecretName = value(&r, l.DataSecretName)
	into.Bootstrap = Ref{text(&r, l.Bootstrap.Group), text(&r, l.Bootstrap.Kind), text(&r, l.Bootstrap.Name)}
	into.Infrastructure = Ref{text(&r, l.Infrastructure.Group), text(&r, l.Infrastructure.Kind), text(&r, l.Infrastructure.Name)}
	into.NodeDrainTimeout = seconds(&r, l.NodeDrainSeconds)
	into.NodeDeletionTimeout = seconds(&r, l.NodeDeletionSeconds)
	into.Phase = text(&r, l.Phase)
	into.Node = NodeRef{Name: text(&r, l.NodeName), UID: types.UID(text(&r, l.NodeUID))}
	into.BootstrapReady = value(&r, l.BootstrapReady)
	into.InfrastructureReady = value(&r, l.InfrastructureReady)
	into.FailureDomain = text(&r, l.FailureDomain)
	into.ObservedGeneration = value(&r, l.ObservedGeneration).Or(0)
	into.LastUpdated = instant(&r, l.LastUpdated)
	into.DrainStarted = instant(&r, l.DrainStarted)
	into.DrainedNode = types.UID(text(&r, l.DrainedNodeUID))
	if r.err == nil {
		into.Addresses, _, r.err = l.Addresses.Get(obj, into.Addresses)
	}
	if r.err == nil {
		into.Conditions, r.err = l.Conditions.Get(obj, into.Conditions)
	}
	return r.err
}

// reader keeps the first error, so that a table of reads stays a table.
type reader struct {
	obj map[string]any
	err error
}

func value[T Scalar](r *reader, f Field[T]) Opt[T] {
	if r.err != nil {
		return Opt[T]{}
	}
	v, found, err := f.Get(r.obj)
	r.err = err
	return Opt[T]{value: v, found: found && err == nil}
}

func text(r *reader, f Field[string]) string { return value(r, f).Or("") }

func seconds(r *reader, f Field[int32]) Opt[time.Duration] {
	n, found := value(r, f).Get()
	return Opt[time.Duration]{value: time.Duration(n) * time.Second, found: found}
}

func instant(r *reader, f Field[string]) time.Time {
	written := text(r, f)
	if r.err != nil || written == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, written)
	if err != nil {
		r.err = unreadableTime(f.path)
		return time.Time{}
	}
	return at.UTC()
}
