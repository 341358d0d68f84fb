package api

import (
	_ "embed"

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
)

// crds are the CustomResourceDefinitions of Machinist, which controller-gen makes of the Go types (make generate).
//
//go:embed crds.yaml
var crds string

// CRDs returns the CustomResourceDefinitions of Machinist, as YAML documents for kubectl apply.
func CRDs() string { return crds }

// GroupVersion returns the group and the version of the kinds, v1beta2.
func (g Group) GroupVersion() schema.GroupVersion {
	if g == "" {
		g = ClusterAPI
	}
	return schema.GroupVersion{Group: string(g), Version: string(contract.V1Beta2)}
}

// AddToScheme adds the Go types of the group to a scheme. A scheme can have them in one group only, because clients find the kind of an
// object by its type. The error is always nil.
func (g Group) AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(g.GroupVersion(),
		&Machine{}, &MachineList{}, &MachineSet{}, &MachineSetList{}, &MachineDeployment{}, &MachineDeploymentList{},
		&MachinePool{}, &MachinePoolList{}, &MachineHealthCheck{}, &MachineHealthCheckList{})
	metav1.AddToGroupVersion(scheme, g.GroupVersion())
	return nil
}

// Machine returns the kind Machine, for machine.New: the Go type, read and written in the same fields as contract.MachineV1Beta2. The
// manager's scheme needs AddToScheme.
func (g Group) Machine() contract.Kind {
	return contract.NewTyped(g.GroupVersion().WithKind("Machine"),
		func() *Machine { return &Machine{} }, func() runtime.Object { return &MachineList{} }, read, write)
}

// MachineSet returns the kind MachineSet, with unstructured content.
func (g Group) MachineSet() contract.MachineSetKind {
	return contract.Unstructured(g.GroupVersion().WithKind("MachineSet"), contract.MachineSetV1Beta2())
}

// MachineDeployment returns the kind MachineDeployment, with unstructured content.
func (g Group) MachineDeployment() contract.MachineDeploymentKind {
	return contract.Unstructured(g.GroupVersion().WithKind("MachineDeployment"), contract.MachineDeploymentV1Beta2())
}

// MachineHealthCheck returns the kind MachineHealthCheck, with unstructured content.
func (g Group) MachineHealthCheck() contract.HealthCheckKind {
	return contract.Unstructured(g.GroupVersion().WithKind("MachineHealthCheck"), contract.HealthCheckV1Beta2())
}

// MachinePool returns the kind MachinePool, with unstructured content. That of Machinist has a selector for its scale subresource, for
// which Cluster API's has no field. Providers for Cluster API look for pools in its group, so the pools of Machinist are for your own
// providers, whose InfraMachinePools follow their controlling owner in any group.
func (g Group) MachinePool() contract.MachinePoolKind {
	layout := *contract.MachinePoolV1Beta2()
	if g == Machinist {
		layout.SelectorText = contract.At[string]("status", "selector")
	}
	return contract.Unstructured(g.GroupVersion().WithKind("MachinePool"), &layout)
}
