package contract

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// MachineSeed is what the creator of a Machine of a set decides about it, beside what the set's template says. Nothing of it is
// kept or changed.
type MachineSeed struct {
	Key types.NamespacedName
	// Labels and Annotations are all that the Machine gets: those of the template among them.
	Labels, Annotations map[string]string
	Finalizers          []string
	Owners              []metav1.OwnerReference
	// Bootstrap and Infrastructure are the objects that were made for this Machine. They replace the templates that the set's
	// template names; a zero Ref leaves what stands there.
	Bootstrap, Infrastructure Ref
	// BootstrapVersion and InfrastructureVersion are their API versions, without the group, for shapes that have one in a
	// reference.
	BootstrapVersion, InfrastructureVersion string
}

// MachineMaker makes the Machines of sets of one shape, and keeps what can change in place as the set's template says. It does
// what only the shape knows; labels, annotations and owners are changed through Adapters. UnstructuredMaker returns one; write your own for
// Go types. Safe for concurrent use.
type MachineMaker interface {
	// NewMachine returns a Machine with the spec of the set's template and the metadata of the seed. It neither changes nor shares
	// the set, which may come from a cache. Equal input gives equal Machines: by that a set knows whether it may go on with one that
	// is half made.
	NewMachine(set Object, seed MachineSeed) (Object, error)
	// SyncMachine gives the Machine, which is the caller's copy, what the set's template says of all that can change while a
	// machine runs: limits, readiness gates, taints and the like, never what a machine is made of. It returns the names of what
	// the template says; those in given, which an earlier call returned, are removed when the template has come to be silent.
	// What others wrote elsewhere stays. It does not change the set.
	SyncMachine(set, machine Object, given []string) (now []string, err error)
}

// UnstructuredMaker returns the MachineMaker for unstructured sets in the shape of a layout, with the template's spec at
// spec.template.spec. The Machines that it makes are unstructured, so that nothing of a template is lost; SyncMachine takes Machines
// of Go types too that are encoded in the shape of the other layout. It keeps the layouts. What changes in place is what Cluster API
// changes in place: readiness gates, the limits of drain, volumes and Node deletion, minReadySeconds, and taints.
//
// Without a layout it returns nil, which reconcilers refuse.
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

// fill writes the spec of a new Machine.
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

// refer writes what a new Machine refers to: its cluster, which the set has the last word on, and the objects made for it.
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
	if err != nil {
		return nil, fmt.Errorf("%s/%s: convert %T: %w", machine.GetNamespace(), machine.GetName(), machine, err)
	}
	if now, err = m.sync(from.Object, content, given); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", machine.GetNamespace(), machine.GetName(), err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, machine); err != nil {
		return nil, fmt.Errorf("%s/%s: convert to %T: %w", machine.GetNamespace(), machine.GetName(), machine, err)
	}
	return now, nil
}

func (m *unstructuredMaker) sync(set, machine map[string]any, given []string) ([]string, error) {
	fields := specInPlace(&m.set.Template.MachineSpecLayout, &m.machine.MachineSpecLayout)
	return syncFields(fields, m.set.Template.MadeOf, set, machine, given)
}

// ApplyTo gives an object of a Go type the metadata of the seed, for a MachineMaker of your own. It shares nothing with the seed.
func (s MachineSeed) ApplyTo(obj metav1.Object) {
	obj.SetNamespace(s.Key.Namespace)
	obj.SetName(s.Key.Name)
	obj.SetLabels(maps.Clone(s.Labels))
	obj.SetAnnotations(maps.Clone(s.Annotations))
	obj.SetFinalizers(slices.Clone(s.Finalizers))
	obj.SetOwnerReferences(slices.Clone(s.Owners))
}
