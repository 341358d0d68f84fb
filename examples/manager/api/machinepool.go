package api

import (
	_ "embed"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// poolCRD is the CustomResourceDefinition of MachinePool in machinist.dev, as YAML.
//
//go:embed machinist.dev_machinepools.yaml
var poolCRD string

// CRDs returns the CustomResourceDefinitions of machinist.dev, as YAML for kubectl apply.
func CRDs() string { return poolCRD }

// PoolGroup is the group of a MachinePool of our own.
const PoolGroup = "machinist.dev"

// PoolKind is MachinePool of machinist.dev. It is Cluster API's, and has a selector for its scale subresource, which that has no place
// for. Providers that were written for Cluster API look for pools in its group: this one is for providers of your own, whose
// InfraMachinePools follow their controlling owner, whatever its group.
func PoolKind() contract.MachinePoolKind {
	layout := *contract.MachinePoolV1Beta2()
	layout.SelectorText = contract.At[string]("status", "selector")
	return contract.Unstructured(schema.GroupVersionKind{Group: PoolGroup, Version: GroupVersion().Version, Kind: "MachinePool"}, &layout)
}
