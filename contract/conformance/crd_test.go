package conformance_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

func TestCheckCRD_FindsNothingInGoodCRDs(t *testing.T) {
	for role := range goodCRDs() {
		t.Run(string(role), func(t *testing.T) {
			crd := goodCRD(t, role)
			before := crd.DeepCopy()
			report := conformance.CheckCRD(crd, role)
			require.Empty(t, report.Findings)
			require.Equal(t, []conformance.Judged{{APIVersion: "v1beta2", Contract: contract.V1Beta2},
				{APIVersion: "v1beta1", Contract: contract.V1Beta1}},
				report.Judged)
			require.Empty(t, cmp.Diff(before.Object, crd.Object), "looking changes nothing")
		})
	}
}

// brokenCRD is a good CRD with one thing broken, and the findings without their rules.
type brokenCRD struct {
	role  conformance.Role
	edits []edit
	want  []conformance.Finding
	// rule is a part of the first finding's rule.
	rule string
}

func must(path, found, want string) conformance.Finding {
	return conformance.Finding{Level: conformance.Must, Path: path, Found: found, Want: want}
}

func should(path, found, want string) conformance.Finding {
	return conformance.Finding{Level: conformance.Should, Path: path, Found: found, Want: want}
}

func (c brokenCRD) check(t *testing.T) {
	t.Helper()
	crd := goodCRD(t, c.role)
	for _, change := range c.edits {
		change(t, crd.Object)
	}
	findings := conformance.CheckCRD(crd, c.role).Findings
	require.Equal(t, findings, conformance.CheckCRD(crd, c.role).Findings, "the same CRD has the same findings")
	if c.rule != "" {
		require.NotEmpty(t, findings)
		require.Contains(t, findings[0].Rule, c.rule)
	}
	for i := range findings {
		require.NotEmpty(t, findings[i].Rule)
		findings[i].Rule = ""
	}
	if diff := cmp.Diff(c.want, findings, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

const (
	machineName = "foomachines.infrastructure.cluster.x-k8s.io"
	versionsOf1 = "the API versions that fulfil the contract, such as v1beta1 or v1beta1_v1beta2"
)

func TestCheckCRD_NamesAndScope(t *testing.T) {
	for name, c := range map[string]brokenCRD{
		"a cluster-scoped kind": {
			edits: []edit{set("Cluster", "spec", "scope")},
			want:  []conformance.Finding{must("spec.scope", "Cluster", "Namespaced")}, rule: "scope",
		},
		"no scope": {
			edits: []edit{unset("spec", "scope")},
			want:  []conformance.Finding{must("spec.scope", "nothing", "Namespaced")},
		},
		"a name that Cluster API does not look for": {
			edits: []edit{set("foomachine.infrastructure.cluster.x-k8s.io", "metadata", "name")},
			want:  []conformance.Finding{must("metadata.name", "foomachine.infrastructure.cluster.x-k8s.io", machineName)}, rule: "by this name",
		},
		"another name for the list": {
			edits: []edit{set("FooMachines", "spec", "names", "listKind")},
			want:  []conformance.Finding{must("spec.names.listKind", "FooMachines", "FooMachineList")},
		},
		"no name for the list, which the API server fills in": {edits: []edit{unset("spec", "names", "listKind")}},
		"a kind with another ending": {
			edits: []edit{set("FooServer", "spec", "names", "kind"), unset("spec", "names", "listKind"),
				set("fooservers.infrastructure.cluster.x-k8s.io", "metadata", "name")},
			want: []conformance.Finding{should("spec.names.kind", "FooServer", "a name that ends in Machine")},
		},
		"no kind": {
			edits: []edit{unset("spec", "names")},
			want:  []conformance.Finding{must("spec", "no group or no kind", "group and names.kind")},
		},
		"no status subresource": {
			edits: []edit{inVersion("v1beta2", "", "subresources")},
			want:  []conformance.Finding{should("spec.versions[v1beta2]: subresources.status", "nothing", "object")},
		},
		"the dialect of old API servers": {
			edits: []edit{set("apiextensions.k8s.io/v1beta1", "apiVersion")},
			want:  []conformance.Finding{must("apiVersion", "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1")},
		},
		"another kind of object": {
			edits: []edit{set("Deployment", "kind")},
			want:  []conformance.Finding{must("kind", "Deployment", "CustomResourceDefinition")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.role = conformance.InfraMachine
			c.check(t)
		})
	}
}

func TestCheckCRD_Fields(t *testing.T) {
	for name, c := range map[string]brokenCRD{
		"the newer label without the newer fields": {
			role:  conformance.InfraMachine,
			edits: []edit{set("v1beta1", "metadata", "labels", "cluster.x-k8s.io/v1beta2")},
			want: []conformance.Finding{
				must("spec.versions[v1beta1]: status.initialization.provisioned", "nothing",
					"boolean"),
			},
			rule: "and the API server drops what the schema does not know",
		},
		"the older label on the newer fields": {
			role:  conformance.BootstrapConfig,
			edits: []edit{set("v1beta1_v1beta2", "metadata", "labels", "cluster.x-k8s.io/v1beta1")},
			want: []conformance.Finding{
				should("spec.versions[v1beta2]: status.ready",
					"nothing", "boolean"),
			},
		},
		"no provider ID": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "", "spec", "providerID")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: spec.providerID", "nothing", "string")},
			rule:  "InfraMachine contract v1beta2, provider ID",
		},
		"no spec at all": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "", "spec")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: spec.providerID", "nothing", "string")},
		},
		"a provider ID that is no text": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "{type: integer}", "spec", "providerID")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: spec.providerID", "integer", "string")},
		},
		"a provider ID that may be a number": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "{x-kubernetes-int-or-string: true}", "spec", "providerID")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: spec.providerID", "integer or string", "string")},
		},
		"a flag on the way to the flag": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "{type: boolean}", "status", "initialization")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: status.initialization.provisioned", "a boolean on the way to it", "boolean")},
		},
		"no name of the Secret": {
			role:  conformance.BootstrapConfig,
			edits: []edit{inSchema("v1beta2", "", "status", "dataSecretName")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: status.dataSecretName", "nothing", "string")},
			rule:  "data secret",
		},
		"an optional field may be missing": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "", "status", "addresses"), inSchema("v1beta2", "", "status", "failureDomain")},
		},
		"an optional field of another type": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "{type: integer}", "status", "failureDomain")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: status.failureDomain", "integer", "string")},
		},
		"addresses of another type": {
			role: conformance.InfraMachine,
			edits: []edit{inSchema("v1beta1", "{type: array, items: {type: string}}", "status", "addresses"),
				inSchema("v1beta2", "{type: array, items: {type: object, properties: {type: {type: string}}}}", "status", "addresses")},
			want: []conformance.Finding{
				must("spec.versions[v1beta2]: status.addresses[].address", "nothing", "string"),
				should("spec.versions[v1beta1]: status.addresses[]", "string", "object"),
			},
		},
		"address types that a Machine refuses": {
			role:  conformance.InfraMachine,
			edits: []edit{inSchema("v1beta2", "{type: string, enum: [Hostname, Public, Private]}", "status", "addresses", "[]", "type")},
			want: []conformance.Finding{must("spec.versions[v1beta2]: status.addresses[].type", `an enum that allows "Private, Public"`,
				"one of Hostname, ExternalIP, InternalIP, ExternalDNS, InternalDNS")},
		},
		"a version without a schema": {
			role:  conformance.BootstrapConfig,
			edits: []edit{inVersion("v1beta2", "", "schema")},
			want:  []conformance.Finding{must("spec.versions[v1beta2]: schema.openAPIV3Schema", "nothing", "object")},
		},
	} {
		t.Run(name, c.check)
	}
}

func TestCheckCRD_Conditions(t *testing.T) {
	const at = "spec.versions[v1beta2]: status.conditions"
	for name, c := range map[string]brokenCRD{
		"none": {
			edits: []edit{inSchema("v1beta2", "", "status", "conditions")},
			want:  []conformance.Finding{should(at, "nothing", "list of conditions")},
			rule:  "BootstrapConfig contract v1beta2, conditions",
		},
		"those of a provider in transition are enough": {
			edits: []edit{inSchema("v1beta2", "", "status", "conditions"),
				inSchema("v1beta2", "{type: object, properties: {conditions: "+metav1Conditions+"}}", "status", "v1beta2")},
		},
		"no list": {
			edits: []edit{inSchema("v1beta2", "{type: object}", "status", "conditions")},
			want:  []conformance.Finding{must(at, "object", "list of conditions")},
		},
		"entries without a status": {
			edits: []edit{inSchema("v1beta2", "", "status", "conditions", "[]", "status")},
			want:  []conformance.Finding{must(at+"[].status", "nothing", "string")},
		},
		"a status that is a flag": {
			edits: []edit{inSchema("v1beta2", "{type: boolean}", "status", "conditions", "[]", "status")},
			want:  []conformance.Finding{must(at+"[].status", "boolean", "string")},
		},
		"a status of other words": {
			edits: []edit{inSchema("v1beta2", `{type: string, enum: ["True", "true"]}`, "status", "conditions", "[]", "status")},
			want:  []conformance.Finding{must(at+"[].status", `an enum that allows "true"`, "one of True, False, Unknown")},
		},
		"a time that is a number": {
			edits: []edit{inSchema("v1beta2", "{type: integer}", "status", "conditions", "[]", "lastTransitionTime")},
			want:  []conformance.Finding{must(at+"[].lastTransitionTime", "integer", "string")},
		},
		"a generation that is text": {
			edits: []edit{inSchema("v1beta2", "{type: string}", "status", "conditions", "[]", "observedGeneration")},
			want:  []conformance.Finding{must(at+"[].observedGeneration", "string", "integer")},
		},
		"a reason that may be missing": {
			edits: []edit{inSchema("v1beta2", "", "status", "conditions", "[]", "reason")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.role = conformance.BootstrapConfig
			c.check(t)
		})
	}
}

// What the API server does not prune can be there, whatever the schema says.
func TestCheckCRD_WhatIsNotPrunedIsNotMissing(t *testing.T) {
	for name, change := range map[string]edit{
		"preserved below the status": inVersion("v1beta2", "{type: object, x-kubernetes-preserve-unknown-fields: true}",
			"schema", "openAPIV3Schema", "properties", "status"),
		"preserved below the root": inVersion("v1beta2", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "schema",
			"openAPIV3Schema"),
		"preserved without a type": inVersion("v1beta2", "{x-kubernetes-preserve-unknown-fields: true}",
			"schema", "openAPIV3Schema", "properties", "status"),
		"additional properties of any type": inVersion("v1beta2", "{type: object, additionalProperties: true}",
			"schema", "openAPIV3Schema", "properties", "status"),
	} {
		t.Run(name, brokenCRD{role: conformance.BootstrapConfig, edits: []edit{change}}.check)
	}
	t.Run("but what is declared has a type", brokenCRD{
		role: conformance.BootstrapConfig,
		edits: []edit{inVersion("v1beta2",
			"{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {dataSecretName: {type: object}}}",
			"schema", "openAPIV3Schema", "properties", "status")},
		want: []conformance.Finding{must("spec.versions[v1beta2]: status.dataSecretName", "object", "string")},
	}.check)
	t.Run("and so have additional properties", brokenCRD{
		role: conformance.InfraMachine,
		edits: []edit{inVersion("v1beta2", "{type: object, additionalProperties: {type: integer}}",
			"schema", "openAPIV3Schema", "properties", "spec")},
		want: []conformance.Finding{must("spec.versions[v1beta2]: spec.failureDomain", "integer", "string"),
			must("spec.versions[v1beta2]: spec.providerID", "integer", "string")},
	}.check)
}

func TestCheckCRD_NothingToLookAt(t *testing.T) {
	for name, c := range map[string]struct {
		crd  *unstructured.Unstructured
		role conformance.Role
		want string
	}{
		"no CRD":       {nil, conformance.InfraMachine, "MUST kind: found nothing, want CustomResourceDefinition"},
		"an empty one": {&unstructured.Unstructured{}, conformance.InfraMachine, "MUST kind: found nothing, want CustomResourceDefinition"},
		"no role":      {goodCRD(t, conformance.InfraMachine), "", "MUST kind: found no role, want a role of the contract"},
	} {
		t.Run(name, func(t *testing.T) {
			findings := conformance.CheckCRD(c.crd, c.role).Findings
			require.Len(t, findings, 1)
			require.Contains(t, findings[0].String(), c.want)
		})
	}
}
