package contract

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Seed is the metadata of an object that a set or a deployment makes. It is neither retained nor changed.
type Seed struct {
	Key types.NamespacedName
	// Labels and Annotations are complete: those of a Machine include those of the template.
	Labels, Annotations map[string]string
	Finalizers          []string
	Owners              []metav1.OwnerReference
}

// MachineSeed is what the creator of a Machine of a set decides, in addition to the template of the set. It is neither retained nor
// changed.
type MachineSeed struct {
	Seed

	// Bootstrap and Infrastructure are the objects created for this Machine. They replace the references to templates in the set's template; a
	// zero Ref replaces nothing.
	Bootstrap, Infrastructure Ref
	// BootstrapVersion and InfrastructureVersion are the API versions of the two objects, without the group, for shapes with an apiVersion in
	// references.
	BootstrapVersion, InfrastructureVersion string
}

// MachineMaker makes the Machines of sets of one shape, and updates the fields of Machines that can change in place. It handles only what
// depends on the shape; labels, annotations and owners are changed through Adapters. UnstructuredMaker returns one; write your own for Go
// types. Safe for concurrent use.
type MachineMaker interface {
	// NewMachine returns a Machine with the spec of the set's template and the metadata of the seed. It does not change the set, which may
	// come from a cache, and shares no memory with it. Equal input must give equal Machines: a set compares them to decide whether it may
	// continue with a half-made one.
	NewMachine(set Object, seed MachineSeed) (Object, error)
	// SyncMachine copies from the set's template to the Machine, which is the caller's copy, all fields that can change while a machine runs:
	// limits, readiness gates, taints and similar, never those that decide which machine is made. It returns the names of the fields that the
	// template has. Names in given, which an earlier call returned, are removed from the Machine when the template no longer has them. Fields
	// of other writers and the set do not change.
	SyncMachine(set, machine Object, given []string) (now []string, err error)
}

// UnstructuredMaker returns the MachineMaker for unstructured sets in the shape of a layout, with the template's spec at
// spec.template.spec. It makes unstructured Machines, so that no field of a template is lost. SyncMachine also accepts Machines of Go types
// that are encoded in the shape of the Machine layout. It retains the layouts. The fields that change in place are those of Cluster API:
// readiness gates, the limits of drain, volumes and Node deletion, minReadySeconds, and taints.
//
// With a nil layout it returns nil, which reconcilers reject.
func UnstructuredMaker(set *MachineSetLayout, gvk schema.GroupVersionKind, machine *MachineLayout) MachineMaker {
	if set == nil || machine == nil {
		return nil
	}
	return &unstructuredMaker{set: set, gvk: gvk, machine: machine, spec: NewPath("spec", "template", "spec")}
}

type unstructuredMaker struct {
	set     *MachineSetLayout
	gvk     schema.GroupVersionKind
	machine *MachineLayout
	spec    Path
}

// NewMachine implements MachineMaker.
func (m *unstructuredMaker) NewMachine(set Object, seed MachineSeed) (Object, error) {
	from, err := typed[*unstructured.Unstructured](set)
	if err != nil {
		return nil, err
	}
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetGroupVersionKind(m.gvk)
	seed.ApplyTo(made)
	if err := m.fill(from.Object, made.Object, seed); err != nil {
		return nil, about("", set, err)
	}
	return made, nil
}

func (m *unstructuredMaker) fill(set, made map[string]any, seed MachineSeed) error {
	template, err := templateObject(set, m.spec.segments...)
	if err != nil {
		return err
	}
	if made["spec"], err = copyJSON(template, m.spec.segments...); err != nil {
		return err
	}
	return m.refer(set, made, seed)
}

// refer writes the references of a new Machine: its cluster, for which the set overrides the template, and the objects created for it.
func (m *unstructuredMaker) refer(set, made map[string]any, seed MachineSeed) error {
	cluster, found, err := m.set.ClusterName.Get(set)
	if err == nil && found && !m.machine.ClusterName.path.IsZero() {
		err = Set(m.machine.ClusterName, made, cluster)
	}
	if err == nil && !seed.Bootstrap.IsZero() && m.machine.Bootstrap.exists() {
		err = m.machine.Bootstrap.set(made, seed.Bootstrap, seed.BootstrapVersion)
	}
	if err == nil && !seed.Infrastructure.IsZero() && m.machine.Infrastructure.exists() {
		err = m.machine.Infrastructure.set(made, seed.Infrastructure, seed.InfrastructureVersion)
	}
	return err
}

// SyncMachine implements MachineMaker.
func (m *unstructuredMaker) SyncMachine(set, machine Object, given []string) (now []string, err error) {
	from, err := typed[*unstructured.Unstructured](set)
	if err != nil {
		return nil, err
	}
	if u, ok := machine.(*unstructured.Unstructured); ok {
		return m.sync(from.Object, u.Object, given)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(machine)
	if err == nil {
		now, err = m.sync(from.Object, content, given)
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, machine)
	}
	return now, about("", machine, err)
}

func (m *unstructuredMaker) sync(set, machine map[string]any, given []string) ([]string, error) {
	fields := specInPlace(&m.set.Template.MachineSpecLayout, &m.machine.MachineSpecLayout)
	return syncFields(fields, m.set.Template.MadeOf, set, machine, given)
}

// ApplyTo sets the metadata on an object of a Go type, for your own MachineMaker or MachineSetMaker. The object shares no memory with the
// seed.
func (s Seed) ApplyTo(obj metav1.Object) {
	obj.SetNamespace(s.Key.Namespace)
	obj.SetName(s.Key.Name)
	obj.SetLabels(maps.Clone(s.Labels))
	obj.SetAnnotations(maps.Clone(s.Annotations))
	obj.SetFinalizers(slices.Clone(s.Finalizers))
	obj.SetOwnerReferences(slices.Clone(s.Owners))
}
