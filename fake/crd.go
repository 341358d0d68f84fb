package fake

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

// CRD returns the CustomResourceDefinition of a namespaced kind with a status subresource and a schema that preserves all fields. For each
// contract it has the contract label with the kind's API version; without contracts it has no contract label.
func CRD(gvk schema.GroupVersionKind, contracts ...contract.Version) *unstructured.Unstructured {
	plural, _, _ := strings.Cut(contract.CRDName(gvk.GroupKind()), ".")
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": contract.CRDName(gvk.GroupKind())},
		"spec": map[string]any{
			"group": gvk.Group,
			"scope": "Namespaced",
			"names": map[string]any{
				"kind": gvk.Kind, "listKind": gvk.Kind + "List", "plural": plural, "singular": strings.ToLower(gvk.Kind),
			},
			"versions": []any{map[string]any{
				"name": gvk.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
	for _, v := range contracts {
		WithLabels(map[string]string{contract.LabelPrefix + string(v): gvk.Version})(u)
	}
	return u
}
