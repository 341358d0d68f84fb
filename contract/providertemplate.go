package contract

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// TemplateLayout says where a template of any role keeps what an object is cloned from, and for an InfraMachineTemplate, what
// cluster-autoscaler reads of it. Rule: the sections "...Template resource definition" of the contract pages; they have been the same in
// every version. The tags are those of MachineLayout and say what the contract demands.
type TemplateLayout struct {
	// Labels and Annotations are put on every clone.
	Labels      Field[map[string]string] `by:"user" need:"MAY" absent:"none"`
	Annotations Field[map[string]string] `by:"user" need:"MAY" absent:"none"`
	// Spec is the spec of every clone.
	Spec Field[json.RawMessage] `by:"user" need:"MUST" absent:"clones have no spec"`
	// Capacity is what a machine will have, for scaling a group that has none. Rule: Cluster API proposal 20210310 "opt-in
	// autoscaling from zero".
	Capacity Field[corev1.ResourceList] `by:"provider" need:"MAY" absent:"no scaling from zero, unless annotations say it"`
	// Architecture is amd64, arm64, s390x or ppc64le.
	Architecture Field[string] `by:"provider" need:"MAY" absent:"what cluster-autoscaler was told, or amd64"`
	// OperatingSystem is linux or windows.
	OperatingSystem Field[string] `by:"provider" need:"MAY" absent:"linux"`
}

var (
	bootstrapConfigTemplateTables = tablesOf(bootstrapConfigTemplate, bootstrapConfigTemplate)
	infraMachineTemplateTables    = tablesOf(infraMachineTemplate, infraMachineTemplate)
)

func bootstrapConfigTemplate(Version) TemplateLayout {
	return TemplateLayout{
		Labels:      At[map[string]string]("spec", "template", "metadata", "labels"),
		Annotations: At[map[string]string]("spec", "template", "metadata", "annotations"),
		Spec:        At[json.RawMessage]("spec", "template", "spec"),
	}
}

func infraMachineTemplate(v Version) TemplateLayout {
	l := bootstrapConfigTemplate(v)
	l.Capacity = At[corev1.ResourceList]("status", "capacity")
	l.Architecture = At[string]("status", "nodeInfo", "architecture")
	l.OperatingSystem = At[string]("status", "nodeInfo", "operatingSystem")
	return l
}

// BootstrapConfigTemplate returns the layout of a contract version, nil for one that is not supported. The table is shared
// and must not be changed.
func BootstrapConfigTemplate(v Version) *TemplateLayout { return bootstrapConfigTemplateTables.of(v) }

// InfraMachineTemplate returns the layout of a contract version, nil for one that is not supported. The table is shared and
// must not be changed.
func InfraMachineTemplate(v Version) *TemplateLayout { return infraMachineTemplateTables.of(v) }
