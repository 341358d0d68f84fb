package kwokdriver

import (
	_ "embed"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed crds.yaml
var crds string

// CRDs returns the CustomResourceDefinitions of KwokMachine and KwokMachineTemplate, as YAML for kubectl apply.
func CRDs() string { return crds }

// GVK returns the kind KwokMachine, which fulfils contract v1beta2.
func GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Kind: "KwokMachine"}
}
