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

// PoolGroup is the group of our own MachinePool.
const PoolGroup = "machinist.dev"

// PoolKind returns the kind MachinePool of machinist.dev. It has the fields of Cluster API's and also a selector for
// its scale subresource, for which Cluster API's has no field. Providers for Cluster API look for pools in its group,
// so this kind is for your own providers, whose InfraMachinePools follow their controlling owner in any group.
func PoolKind() contract.MachinePoolKind {
	layout := *contract.MachinePoolV1Beta2()
	layout.SelectorText = contract.At[string]("status", "selector")
	return contract.Unstructured(schema.GroupVersionKind{Group: PoolGroup, Version: GroupVersion().Version, Kind: "MachinePool"}, &layout)
}
