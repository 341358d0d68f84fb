package api

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// Group is the API group of the kinds. The zero Group is ClusterAPI.
type Group string

// Groups.
const (
	// ClusterAPI is the group of Cluster API's CustomResourceDefinitions.
	ClusterAPI Group = "cluster.x-k8s.io"
	// Machinist is the group of the CustomResourceDefinitions of this package.
	Machinist Group = "machinist.dev"
	// Kubermatic is the group of the CustomResourceDefinitions of Kubermatic's machine-controller, in v1alpha1.
	Kubermatic Group = "cluster.k8s.io"
	// Gardener is the group of the CustomResourceDefinitions of Gardener's machine-controller-manager, in v1alpha1.
	Gardener Group = "machine.sapcloud.io"
)

// Groups returns all groups.
func Groups() []Group { return []Group{ClusterAPI, Machinist, Kubermatic, Gardener} }

// GroupNames returns the names of groups for a text, as in "a, b or c".
func GroupNames(groups ...Group) string {
	names := make([]string, 0, len(groups))
	for _, g := range groups {
		names = append(names, string(g))
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// IsKnown reports whether it is one of Groups, or the zero Group.
func (g Group) IsKnown() bool { return slices.Contains(Groups(), g.orDefault()) }

// IsClusterAPI reports whether it is ClusterAPI, which the zero Group is too.
func (g Group) IsClusterAPI() bool { return g.orDefault() == ClusterAPI }

// IsForeign reports whether the kinds are those of another system: only Machine, MachineSet and MachineDeployment, with other fields than
// Cluster API's. Their Machines refer to no Clusters and to no infrastructure objects.
func (g Group) IsForeign() bool { return g == Kubermatic || g == Gardener }

func (g Group) orDefault() Group { return cmp.Or(g, ClusterAPI) }

// Layouts returns where the kinds keep their state. The tables are shared and must not be changed.
func (g Group) Layouts() contract.Layouts {
	switch g {
	case Kubermatic:
		return contract.KubermaticLayouts()
	case Gardener:
		return contract.GardenerLayouts()
	default:
		return contract.LayoutsOf(contract.V1Beta2)
	}
}

// crds are the CustomResourceDefinitions of Machinist, which controller-gen makes of the Go types (make generate).
//
//go:embed crds.yaml
var crds string

// CRDs returns the CustomResourceDefinitions of Machinist, as YAML documents for kubectl apply.
func CRDs() string { return crds }

// GroupVersion returns the group and the version of the kinds: v1beta2, or v1alpha1 for those of another system.
func (g Group) GroupVersion() schema.GroupVersion {
	if g.IsForeign() {
		return schema.GroupVersion{Group: string(g), Version: "v1alpha1"}
	}
	return schema.GroupVersion{Group: string(g.orDefault()), Version: string(contract.V1Beta2)}
}

// AddToScheme adds the Go types of the group to a scheme; for a group of another system there are none. A scheme can have them in one group
// only, because clients find the kind of an object by its type. The error is always nil.
func (g Group) AddToScheme(scheme *runtime.Scheme) error {
	if g.IsForeign() {
		return nil
	}
	scheme.AddKnownTypes(g.GroupVersion(),
		&Machine{}, &MachineList{}, &MachineSet{}, &MachineSetList{}, &MachineDeployment{}, &MachineDeploymentList{},
		&MachinePool{}, &MachinePoolList{}, &MachineHealthCheck{}, &MachineHealthCheckList{})
	if g == Machinist {
		scheme.AddKnownTypes(g.GroupVersion(), &MachineClass{}, &MachineClassList{})
	}
	metav1.AddToGroupVersion(scheme, g.GroupVersion())
	return nil
}

// Machine returns the kind Machine, for machine.New: the Go type, read and written in the same fields as by the layout of Cluster API's
// v1beta2. The manager's scheme needs AddToScheme. The Machines of another system have unstructured content, and Kubermatic's no status
// subresource.
func (g Group) Machine() contract.Kind {
	if g.IsForeign() {
		kind := contract.Unstructured(g.GroupVersion().WithKind("Machine"), g.Layouts().Machine)
		kind.StatusSubresource = g != Kubermatic
		return kind
	}
	return contract.NewTyped(g.GroupVersion().WithKind("Machine"),
		func() *Machine { return &Machine{} }, func() runtime.Object { return &MachineList{} }, read, write)
}

// MachineSet returns the kind MachineSet, with unstructured content.
func (g Group) MachineSet() contract.MachineSetKind {
	return contract.Unstructured(g.GroupVersion().WithKind("MachineSet"), g.Layouts().MachineSet)
}

// MachineDeployment returns the kind MachineDeployment, with unstructured content.
func (g Group) MachineDeployment() contract.MachineDeploymentKind {
	return contract.Unstructured(g.GroupVersion().WithKind("MachineDeployment"), g.Layouts().MachineDeployment)
}

// MachineClass returns the kind MachineClass, of Gardener or of Machinist, which Machines of ClusterAPI can name too.
func (g Group) MachineClass() schema.GroupVersionKind {
	if g != Gardener {
		g = Machinist
	}
	return g.GroupVersion().WithKind("MachineClass")
}

// MachineHealthCheck returns the kind MachineHealthCheck, with unstructured content. Machines of other systems, which have no such kind,
// are checked by that of Machinist.
func (g Group) MachineHealthCheck() contract.HealthCheckKind {
	if g.IsForeign() {
		g = Machinist
	}
	return contract.Unstructured(g.GroupVersion().WithKind("MachineHealthCheck"), contract.LayoutsOf(contract.V1Beta2).HealthCheck)
}

// MachinePool returns the kind MachinePool, with unstructured content. That of Machinist has a selector for its scale subresource, for
// which Cluster API's has no field. Providers for Cluster API look for pools in its group, so the pools of Machinist are for your own
// providers, whose InfraMachinePools follow their controlling owner in any group. Other systems have none.
func (g Group) MachinePool() contract.MachinePoolKind {
	layout := *contract.LayoutsOf(contract.V1Beta2).MachinePool
	if g == Machinist {
		layout.SelectorText = contract.At[string]("status", "selector")
	}
	return contract.Unstructured(g.GroupVersion().WithKind("MachinePool"), &layout)
}
