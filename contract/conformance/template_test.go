package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

func templateRoles() []conformance.Role {
	return []conformance.Role{conformance.InfraMachineTemplate, conformance.InfraMachinePoolTemplate, conformance.BootstrapConfigTemplate}
}

func TestCheckCRD_Templates(t *testing.T) {
	for _, role := range templateRoles() {
		for name, c := range map[string]brokenCRD{
			"no template": {
				edits: edits{newer("", "spec", "template")},
				want: finds{
					must(inNewer+"spec.template.spec", "nothing", "object"),
					should(inNewer+"spec.template.metadata.labels", "nothing", "map of strings"),
				},
				rule: string(role) + " contract v1beta2, template resource definition",
			},
			"no spec in it": {
				edits: edits{newer("", "spec", "template", "spec")}, want: finds{must(inNewer+"spec.template.spec", "nothing", "object")},
			},
			"a spec that is a list": {
				edits: edits{newer("{type: array, items: {type: string}}", "spec", "template", "spec")},
				want:  finds{must(inNewer+"spec.template.spec", "array", "object")},
			},
			"a spec of anything": {edits: edits{newer("{x-kubernetes-preserve-unknown-fields: true}", "spec", "template", "spec")}},
			"no labels and annotations in it": {
				edits: edits{newer("{type: object}", "spec", "template", "metadata")},
				want:  finds{should(inNewer+"spec.template.metadata.labels", "nothing", "map of strings")},
				rule:  "the API server drops spec.template.metadata.labels and spec.template.metadata.annotations",
			},
			"labels that are dropped one by one": {
				edits: edits{newer("{type: object}", "spec", "template", "metadata", "labels")},
				want:  finds{should(inNewer+"spec.template.metadata.labels", "an object without entries", "map of strings")},
			},
			"labels of anything": {
				edits: edits{newer("{type: object, x-kubernetes-preserve-unknown-fields: true}", "spec", "template", "metadata",
					"labels")},
			},
			"labels that are numbers": {
				edits: edits{newer("{type: object, additionalProperties: {type: integer}}", "spec", "template", "metadata", "labels")},
				want:  finds{must(inNewer+"spec.template.metadata.labels[]", "integer", "string")},
			},
			"no status subresource is needed": {edits: edits{inVersion("v1beta2", "", "subresources")}},
			"a kind that no clone can be named after": {
				edits: edits{set("Foo", "spec", "names", "kind"), unset("spec", "names", "listKind"),
					set("example.com", "spec", "group"), set("foos.example.com", "metadata", "name")},
				want: finds{must("spec.names.kind", "Foo", "a name that ends in "+suffixOf(role))},
			},
		} {
			t.Run(string(role)+"/"+name, func(t *testing.T) {
				c.role = role
				c.check(t)
			})
		}
	}
}

func suffixOf(role conformance.Role) string {
	switch role {
	case conformance.InfraMachineTemplate:
		return "MachineTemplate"
	case conformance.InfraMachinePoolTemplate:
		return "MachinePoolTemplate"
	default:
		return "ConfigTemplate"
	}
}

func TestCheckObject_Templates(t *testing.T) {
	for _, role := range templateRoles() {
		for name, c := range map[string]objectCase{
			"one with a spec":           {object: `spec: {template: {metadata: {labels: {a: b}}, spec: {size: 3}}}`},
			"one with an empty one":     {object: `spec: {template: {}}`},
			"nothing to clone":          {want: finds{should("spec.template", "nothing", "object")}},
			"a template that is a list": {object: `spec: {template: []}`, want: finds{must("spec.template", "list", "object")}},
			"labels that are no text": {
				object: `spec: {template: {metadata: {labels: {a: 1}}, spec: {}}}`,
				want:   finds{must("spec.template.metadata.labels.a", "integer", "string")},
			},
		} {
			t.Run(string(role)+"/"+name, func(t *testing.T) {
				c.role = role
				c.check(t)
			})
		}
	}
	t.Run("a kind that no clone can be named after", func(t *testing.T) {
		obj := parse(t, "{apiVersion: a/v1, kind: FooMachine, metadata: {name: a}, spec: {template: {spec: {}}}}")
		findings := conformance.CheckObject(obj, conformance.InfraMachineTemplate, contract.V1Beta1).Findings
		require.Len(t, findings, 1)
		require.Contains(t, findings[0].String(), "MUST kind: found FooMachine, want a name that ends in Template")
	})
}
