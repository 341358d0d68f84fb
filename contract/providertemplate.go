package contract

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TemplateLayout says where a template of any role keeps what an object is cloned from. Rule: the sections "...Template
// resource definition" of the contract pages; they have been the same in every version. The tags are those of MachineLayout
// and say what the contract demands.
type TemplateLayout struct {
	// Version is the contract version, for error messages.
	Version Version
	// Labels and Annotations are put on every clone.
	Labels      TextMapField `by:"user" need:"MAY" absent:"none"`
	Annotations TextMapField `by:"user" need:"MAY" absent:"none"`
	// Spec is the spec of every clone.
	Spec ContentField `by:"user" need:"MUST" absent:"clones have no spec"`
}

// TemplateState is what a template says. Maps are read-only views.
type TemplateState struct {
	// Labels and Annotations are nil without any.
	Labels, Annotations map[string]string
	// HasSpec says that there is a spec to clone. A template without one is tolerated.
	HasSpec bool
}

// BootstrapConfigTemplateLayout says where a BootstrapConfigTemplate of one contract version keeps what a set of Machines
// reads of it. The tables returned by BootstrapConfigTemplate are shared: copy one to change it.
type BootstrapConfigTemplateLayout struct{ TemplateLayout }

// BootstrapConfigTemplateState is what a BootstrapConfigTemplate says.
type BootstrapConfigTemplateState struct{ TemplateState }

// InfraMachineTemplateLayout says where an InfraMachineTemplate of one contract version keeps what a set of Machines and
// cluster-autoscaler read of it. The tables returned by InfraMachineTemplate are shared: copy one to change it.
type InfraMachineTemplateLayout struct {
	TemplateLayout

	// Capacity is what a machine will have, for scaling a group that has none. Rule: Cluster API proposal 20210310 "opt-in
	// autoscaling from zero".
	Capacity QuantitiesField `by:"provider" need:"MAY" absent:"no scaling from zero, unless annotations say it"`
	// Architecture is amd64, arm64, s390x or ppc64le.
	Architecture Field[string] `by:"provider" need:"MAY" absent:"what cluster-autoscaler was told, or amd64"`
	// OperatingSystem is linux or windows.
	OperatingSystem Field[string] `by:"provider" need:"MAY" absent:"linux"`
}

// NodeInfo is what Nodes of a template will say about themselves; both are empty while the template does not say.
type NodeInfo struct{ Architecture, OperatingSystem string }

// InfraMachineTemplateState is what an InfraMachineTemplate says.
type InfraMachineTemplateState struct {
	TemplateState

	// Capacity is nil while the template does not say. It is a read-only view.
	Capacity corev1.ResourceList
	NodeInfo NodeInfo
	// Unreadable says what of Capacity and NodeInfo could not be read, nil when everything could: cloning does not depend on
	// them. It matches ErrWrongType.
	Unreadable error
}

var (
	bootstrapConfigTemplateTables = tablesOf(bootstrapConfigTemplate, bootstrapConfigTemplate)
	infraMachineTemplateTables    = tablesOf(infraMachineTemplate, infraMachineTemplate)
)

func template(v Version) TemplateLayout {
	return TemplateLayout{
		Version:     v,
		Labels:      TextMapAt("spec", "template", "metadata", "labels"),
		Annotations: TextMapAt("spec", "template", "metadata", "annotations"),
		Spec:        ContentAt("spec", "template", "spec"),
	}
}

func bootstrapConfigTemplate(v Version) BootstrapConfigTemplateLayout {
	return BootstrapConfigTemplateLayout{TemplateLayout: template(v)}
}

func infraMachineTemplate(v Version) InfraMachineTemplateLayout {
	return InfraMachineTemplateLayout{
		TemplateLayout:  template(v),
		Capacity:        QuantitiesAt("status", "capacity"),
		Architecture:    At[string]("status", "nodeInfo", "architecture"),
		OperatingSystem: At[string]("status", "nodeInfo", "operatingSystem"),
	}
}

// BootstrapConfigTemplate returns the layout of a contract version, nil for one that is not supported. The table is shared
// and must not be changed; copy it to make a dialect.
func BootstrapConfigTemplate(v Version) *BootstrapConfigTemplateLayout {
	return bootstrapConfigTemplateTables.of(v)
}

// InfraMachineTemplate returns the layout of a contract version, nil for one that is not supported. The table is shared and
// must not be changed; copy it to make a dialect.
func InfraMachineTemplate(v Version) *InfraMachineTemplateLayout {
	return infraMachineTemplateTables.of(v)
}

// Read fills every field of into from the object, keeping its maps where they say the same; it neither changes nor keeps
// obj. It allocates nothing while the maps stay. The error names the object and matches ErrWrongType or ErrUnknownVersion;
// discard into after an error.
func (l *BootstrapConfigTemplateLayout) Read(obj *unstructured.Unstructured, into *BootstrapConfigTemplateState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	r := &reader{obj: obj.Object}
	l.read(r, &into.TemplateState)
	return breaks(obj, l.Version, r.err)
}

// Read fills every field of into from the object, keeping its maps where they say the same; it neither changes nor keeps
// obj. It allocates nothing while the maps stay. The error names the object and matches ErrWrongType or ErrUnknownVersion;
// discard into after an error. What only cluster-autoscaler needs is absent when it cannot be read, and Unreadable says
// why.
func (l *InfraMachineTemplateLayout) Read(obj *unstructured.Unstructured, into *InfraMachineTemplateState) error {
	if l == nil {
		return unknownVersion(obj)
	}
	r := &reader{obj: obj.Object}
	l.TemplateLayout.read(r, &into.TemplateState)
	into.Unreadable = nil
	if r.err != nil {
		return breaks(obj, l.Version, r.err)
	}
	into.Capacity = r.quantities(l.Capacity, into.Capacity)
	r.spare(&into.Unreadable)
	into.NodeInfo.Architecture = text(r, l.Architecture)
	r.spare(&into.Unreadable)
	into.NodeInfo.OperatingSystem = text(r, l.OperatingSystem)
	r.spare(&into.Unreadable)
	return nil
}

func (l *TemplateLayout) read(r *reader, into *TemplateState) {
	into.Labels = r.textMap(l.Labels.path, into.Labels)
	into.Annotations = r.textMap(l.Annotations.path, into.Annotations)
	spec := r.raw(l.Spec.path)
	_, into.HasSpec = spec.(map[string]any)
	if spec != nil && !into.HasSpec {
		r.fail(&FieldError{Path: l.Spec.path, Want: "object", Got: TypeName(spec)})
	}
}
