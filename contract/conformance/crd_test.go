package conformance_test

import (
	stdcmp "cmp"
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
	role  conformance.Role // InfraMachine when it is empty
	edits edits
	want  finds
	// rule is a part of the first finding's rule.
	rule string
}

type (
	finds = []conformance.Finding
	edits = []edit
)

func must(path, found, want string) conformance.Finding {
	return conformance.Finding{Level: conformance.Must, Path: path, Found: found, Want: want}
}

func should(path, found, want string) conformance.Finding {
	return conformance.Finding{Level: conformance.Should, Path: path, Found: found, Want: want}
}

func (c brokenCRD) check(t *testing.T) {
	t.Helper()
	c.role = stdcmp.Or(c.role, conformance.InfraMachine)
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
	inOlder     = "spec.versions[v1beta1]: "
	inNewer     = "spec.versions[v1beta2]: "
	versionsOf1 = "the API versions that fulfil the contract, such as v1beta1 or v1beta1_v1beta2"
)

func TestCheckCRD_NamesAndScope(t *testing.T) {
	for name, c := range map[string]brokenCRD{
		"a cluster-scoped kind": {
			edits: edits{set("Cluster", "spec", "scope")}, want: finds{must("spec.scope", "Cluster", "Namespaced")}, rule: "scope",
		},
		"no scope": {edits: edits{unset("spec", "scope")}, want: finds{must("spec.scope", "nothing", "Namespaced")}},
		"a name that Cluster API does not look for": {
			edits: edits{set("foomachine.infrastructure.cluster.x-k8s.io", "metadata", "name")},
			want:  finds{must("metadata.name", "foomachine.infrastructure.cluster.x-k8s.io", machineName)}, rule: "by this name",
		},
		"another name for the list": {
			edits: edits{set("FooMachines", "spec", "names", "listKind")},
			want:  finds{must("spec.names.listKind", "FooMachines", "FooMachineList")},
		},
		"no name for the list, which the API server fills in": {edits: edits{unset("spec", "names", "listKind")}},
		"a kind with another ending": {
			edits: edits{set("FooServer", "spec", "names", "kind"), unset("spec", "names", "listKind"),
				set("fooservers.infrastructure.cluster.x-k8s.io", "metadata", "name")},
			want: finds{should("spec.names.kind", "FooServer", "a name that ends in Machine")},
		},
		"no kind": {edits: edits{unset("spec", "names")}, want: finds{must("spec", "no group or no kind", "group and names.kind")}},
		"no status subresource": {
			edits: edits{inVersion("v1beta2", "", "subresources")}, want: finds{should(inNewer+"subresources.status", "nothing", "object")},
		},
		"the dialect of old API servers": {
			edits: edits{set("apiextensions.k8s.io/v1beta1", "apiVersion")},
			want:  finds{must("apiVersion", "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1")},
		},
		"another kind of object": {
			edits: edits{set("Deployment", "kind")}, want: finds{must("kind", "Deployment", "CustomResourceDefinition")},
		},
	} {
		t.Run(name, c.check)
	}
}

func TestCheckCRD_Fields(t *testing.T) {
	for name, c := range map[string]brokenCRD{
		"the newer label without the newer fields": {
			edits: edits{set("v1beta1", "metadata", "labels", "cluster.x-k8s.io/v1beta2")},
			want:  finds{must(inOlder+"status.initialization.provisioned", "nothing", "boolean")},
			rule:  "and the API server drops what the schema lacks",
		},
		"the older label on the newer fields": {
			role: conformance.BootstrapConfig, edits: edits{set("v1beta1_v1beta2", "metadata", "labels", "cluster.x-k8s.io/v1beta1")},
			want: finds{should(inNewer+"status.ready", "nothing", "boolean")},
		},
		"no provider ID": {
			edits: edits{newer("", "spec", "providerID")}, want: finds{must(inNewer+"spec.providerID", "nothing", "string")},
			rule: "InfraMachine contract v1beta2, provider ID",
		},
		"no spec at all": {edits: edits{newer("", "spec")}, want: finds{must(inNewer+"spec.providerID", "nothing", "string")}},
		"a provider ID that is no text": {
			edits: edits{newer("{type: integer}", "spec", "providerID")}, want: finds{must(inNewer+"spec.providerID", "integer", "string")},
		},
		"a provider ID that may be a number": {
			edits: edits{newer("{x-kubernetes-int-or-string: true}", "spec", "providerID")},
			want:  finds{must(inNewer+"spec.providerID", "integer or string", "string")},
		},
		"a flag on the way to the flag": {
			edits: edits{newer("{type: boolean}", "status", "initialization")},
			want:  finds{must(inNewer+"status.initialization.provisioned", "a boolean on the way to it", "boolean")},
		},
		"no name of the Secret": {
			role: conformance.BootstrapConfig, edits: edits{newer("", "status", "dataSecretName")},
			want: finds{must(inNewer+"status.dataSecretName", "nothing", "string")}, rule: "data secret",
		},
		"an optional field may be missing": {edits: edits{newer("", "status", "addresses"), newer("", "status", "failureDomain")}},
		"an optional field of another type": {
			edits: edits{newer("{type: integer}", "status", "failureDomain")},
			want:  finds{must(inNewer+"status.failureDomain", "integer", "string")},
		},
		"addresses of another type": {
			edits: edits{older("{type: array, items: {type: string}}", "status", "addresses"),
				newer("{type: array, items: {type: object, properties: {type: {type: string}}}}", "status", "addresses")},
			want: finds{must(inNewer+"status.addresses[].address", "nothing", "string"), should(inOlder+"status.addresses[]", "string", "object")},
		},
		"address types that a Machine refuses": {
			edits: edits{newer("{type: string, enum: [Hostname, Public, Private]}", "status", "addresses", "[]", "type")},
			want: finds{must(inNewer+"status.addresses[].type", `an enum that allows "Private, Public"`,
				"one of Hostname, ExternalIP, InternalIP, ExternalDNS, InternalDNS")},
		},
		"a version without a schema": {
			role: conformance.BootstrapConfig, edits: edits{inVersion("v1beta2", "", "schema")},
			want: finds{must(inNewer+"schema.openAPIV3Schema", "nothing", "object")},
		},
	} {
		t.Run(name, c.check)
	}
}

func TestCheckCRD_Conditions(t *testing.T) {
	const at = inNewer + "status.conditions"
	for name, c := range map[string]brokenCRD{
		"none": {
			edits: edits{newer("", "status", "conditions")}, want: finds{should(at, "nothing", "list of conditions")},
			rule: "BootstrapConfig contract v1beta2, conditions",
		},
		"those of a provider in transition are enough": {
			edits: edits{newer("", "status", "conditions"),
				newer("{type: object, properties: {conditions: "+metav1Conditions+"}}", "status", "v1beta2")},
		},
		"no list": {edits: edits{newer("{type: object}", "status", "conditions")}, want: finds{must(at, "object", "list of conditions")}},
		"entries without a status": {
			edits: edits{newer("", "status", "conditions", "[]", "status")}, want: finds{must(at+"[].status", "nothing", "string")},
		},
		"a status that is a flag": {
			edits: edits{newer("{type: boolean}", "status", "conditions", "[]", "status")},
			want:  finds{must(at+"[].status", "boolean", "string")},
		},
		"a status of other words": {
			edits: edits{newer(`{type: string, enum: ["True", "true"]}`, "status", "conditions", "[]", "status")},
			want:  finds{must(at+"[].status", `an enum that allows "true"`, "one of True, False, Unknown")},
		},
		"a time that is a number": {
			edits: edits{newer("{type: integer}", "status", "conditions", "[]", "lastTransitionTime")},
			want:  finds{must(at+"[].lastTransitionTime", "integer", "string")},
		},
		"a generation that is text": {
			edits: edits{newer("{type: string}", "status", "conditions", "[]", "observedGeneration")},
			want:  finds{must(at+"[].observedGeneration", "string", "integer")},
		},
		"a reason that may be missing": {edits: edits{newer("", "status", "conditions", "[]", "reason")}},
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
		t.Run(name, brokenCRD{role: conformance.BootstrapConfig, edits: edits{change}}.check)
	}
	t.Run("but what is declared has a type", brokenCRD{
		role: conformance.BootstrapConfig,
		edits: edits{inVersion("v1beta2",
			"{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {dataSecretName: {type: object}}}",
			"schema", "openAPIV3Schema", "properties", "status")},
		want: finds{must(inNewer+"status.dataSecretName", "object", "string")},
	}.check)
	t.Run("and so have additional properties", brokenCRD{
		edits: edits{inVersion("v1beta2", "{type: object, additionalProperties: {type: integer}}",
			"schema", "openAPIV3Schema", "properties", "spec")},
		want: finds{must(inNewer+"spec.failureDomain", "integer", "string"),
			must(inNewer+"spec.providerID", "integer", "string")},
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
