package conformance_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// Lint a CRD whose provider added the label of contract v1beta2 and forgot the field: its Machines would wait for ever.
func ExampleCheckCRD() {
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	text := map[string]any{"type": "string"}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":   "fooconfigs.bootstrap.example.com",
			"labels": map[string]any{"cluster.x-k8s.io/v1beta2": "v1"},
		},
		"spec": map[string]any{
			"group": "bootstrap.example.com", "scope": "Namespaced", "names": map[string]any{"kind": "FooConfig"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": object(map[string]any{
					"status": object(map[string]any{"ready": map[string]any{"type": "boolean"}, "dataSecretName": text}),
				})},
			}},
		},
	}}
	role, _ := conformance.RoleOf(schema.GroupKind{Group: "bootstrap.example.com", Kind: "FooConfig"}, true)
	report := conformance.CheckCRD(crd, role)
	looked := func(at conformance.Judged) { fmt.Println(at.APIVersion, "by contract", at.Contract) }
	for _, at := range report.Judged {
		looked(at)
	}
	for _, f := range report.Findings {
		fmt.Println(f.Level, f.Path)
		fmt.Println("  found:", f.Found)
		fmt.Println("  want: ", f.Want)
	}
	// Output:
	// v1 by contract v1beta2
	// MUST spec.versions[v1]: status.initialization.dataSecretCreated
	//   found: nothing
	//   want:  boolean
	// SHOULD spec.versions[v1]: status.conditions
	//   found: nothing
	//   want:  list of conditions
}

// Lint an object in a provider's own test, which fails for each MUST: one that says that it is done must say the rest.
func ExampleCheckObject() {
	machine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.example.com/v1", "kind": "FooMachine",
		"status": map[string]any{"initialization": map[string]any{"provisioned": true}, "conditions": []any{
			map[string]any{"type": "Ready", "status": "True"},
		}},
	}}
	findings := conformance.CheckObject(machine, conformance.InfraMachine, contract.V1Beta2).Findings
	broken := map[contract.Need][]conformance.Finding{}
	for _, f := range findings {
		broken[f.Level] = append(broken[f.Level], f)
	}
	for _, f := range broken[conformance.Must] {
		fmt.Println(f)
	}
	// Output:
	// MUST spec.providerID: found nothing, want the ID that the machine's Node has (InfraMachine contract v1beta2, provider ID: a machine that is provisioned has one; the Machine waits for it)
}
