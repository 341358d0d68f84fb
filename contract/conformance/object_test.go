package conformance_test

import (
	stdcmp "cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// objectCase is an object without its head, and the findings without their rules.
type objectCase struct {
	role    conformance.Role // InfraMachine when it is empty
	version contract.Version // v1beta2 when it is empty
	object  string
	want    []conformance.Finding
	rule    string
}

func (c objectCase) check(t *testing.T) {
	t.Helper()
	obj := parse(t, "{apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: FooMachineTemplate, metadata: {name: a}, "+c.object+"}")
	before := obj.DeepCopy()
	c.role, c.version = stdcmp.Or(c.role, conformance.InfraMachine), stdcmp.Or(c.version, contract.V1Beta2)
	findings := conformance.CheckObject(obj, c.role, c.version).Findings
	require.Empty(t, cmp.Diff(before.Object, obj.Object), "looking changes nothing")
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

const ready = `conditions: [{type: Ready, status: "True", reason: Up, lastTransitionTime: "2026-01-02T03:04:05Z"}]`

func TestCheckObject_InfraMachine(t *testing.T) {
	for name, c := range map[string]objectCase{
		"one that was just made": {object: `spec: {}`},
		"one that is done": {object: `spec: {providerID: "p://1"}, status: {initialization: {provisioned: true}, failureDomain: a,
			addresses: [{type: Hostname, address: a}], ` + ready + `}`},
		"one that is done by contract v1beta1": {version: contract.V1Beta1,
			object: `spec: {providerID: "p://1"}, status: {ready: true, ` + ready + `}`},
		"provisioned without a provider ID": {
			object: `status: {initialization: {provisioned: true}, ` + ready + `}`,
			want:   finds{must("spec.providerID", "nothing", "the ID that the machine's Node has")},
			rule:   "InfraMachine contract v1beta2, provider ID",
		},
		"provisioned with an empty one": {
			object: `spec: {providerID: ""}, status: {initialization: {provisioned: true}, ` + ready + `}`,
			want:   finds{must("spec.providerID", "nothing", "the ID that the machine's Node has")},
		},
		"done at the place of another contract": {
			object: `spec: {providerID: "p://1"}, status: {ready: true, ` + ready + `}`,
			want: finds{must("status.initialization.provisioned", "not true, but status.ready is, the place of contract v1beta1",
				"true")},
			rule: "who reads by contract v1beta2 never looks at the other place",
		},
		"done, and no condition says so": {
			object: `spec: {providerID: "p://1"}, status: {initialization: {provisioned: true}}`,
			want:   finds{should("status.conditions", "nothing", "conditions")},
		},
		"values of other types, each found": {
			object: `spec: {providerID: 7}, status: {initialization: {provisioned: "true"}, addresses: [{type: Hostname}], failureDomain: null}`,
			want: finds{
				must("spec.providerID", "integer", "string"),
				must("status.addresses.0.address", "nothing", "string"),
				must("status.failureDomain", "null", "string"),
				must("status.initialization.provisioned", "string", "bool"),
			},
		},
		"a status that is no object": {object: `status: Ready`, want: finds{must("status", "string", "object")}},
		"conditions that cannot be read": {
			object: `status: {conditions: [{type: Ready, status: "true"}]}`,
			want:   finds{must("status.conditions.0.status", "another text", "True, False or Unknown")}, rule: "conditions",
		},
		"an address of a type that no Machine takes": {
			object: `status: {addresses: [{type: Hostname, address: a}, {type: PublicIP, address: ""}]}`,
			want: finds{
				must("status.addresses.1.address", "an empty text", "an address"),
				must("status.addresses.1.type", `"PublicIP"`, "one of Hostname, ExternalIP, InternalIP, ExternalDNS, InternalDNS"),
			},
		},
		"texts that no Machine takes": {
			object: fmt.Sprintf(`spec: {providerID: %q}, status: {failureDomain: %q}`, strings.Repeat("p", 513), strings.Repeat("é", 257)),
			want:   finds{must("spec.providerID", "513 characters", "at most 512"), must("status.failureDomain", "257 characters", "at most 256")},
		},
	} {
		t.Run(name, c.check)
	}
}

func TestCheckObject_BootstrapConfig(t *testing.T) {
	for name, c := range map[string]objectCase{
		"one that was just made":               {},
		"one that is done":                     {object: `status: {initialization: {dataSecretCreated: true}, dataSecretName: s, ` + ready + `}`},
		"one that is done by contract v1beta1": {version: contract.V1Beta1, object: `status: {ready: true, dataSecretName: s, ` + ready + `}`},
		"a name before the data is there":      {object: `status: {dataSecretName: s}`},
		"data without a name": {
			object: `status: {initialization: {dataSecretCreated: true}, ` + ready + `}`,
			want:   finds{must("status.dataSecretName", "nothing", "the name of the Secret")}, rule: "data secret",
		},
		"data with an empty name": {
			object: `status: {initialization: {dataSecretCreated: true}, dataSecretName: "", ` + ready + `}`,
			want:   finds{must("status.dataSecretName", "an empty name", "the name of the Secret")},
		},
		"a name that no Secret can have": {
			object: `status: {dataSecretName: "Data Of Mine"}`,
			want:   finds{must("status.dataSecretName", `"Data Of Mine"`, "the name of a Secret")},
		},
		"done at the place of another contract": {
			version: contract.V1Beta1,
			object:  `status: {initialization: {dataSecretCreated: true}, dataSecretName: s, ` + ready + `}`,
			want: finds{
				must("status.ready", "not true, but status.initialization.dataSecretCreated is, the place of contract v1beta2",
					"true")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.role = conformance.BootstrapConfig
			c.check(t)
		})
	}
}

func TestCheckObject_NothingToLookAt(t *testing.T) {
	for name, c := range map[string]struct {
		obj     *unstructured.Unstructured
		role    conformance.Role
		version contract.Version
		want    string
	}{
		"no object":    {nil, conformance.InfraMachine, contract.V1Beta2, "MUST kind: found nothing, want an object"},
		"an empty one": {&unstructured.Unstructured{}, conformance.InfraMachine, contract.V1Beta2, "MUST kind: found nothing, want an object"},
		"no role": {&unstructured.Unstructured{Object: map[string]any{}}, "", contract.V1Beta2,
			`MUST kind: found role  of contract "v1beta2"`},
		"no such version": {&unstructured.Unstructured{Object: map[string]any{}}, conformance.InfraMachine, "v9", `of contract "v9"`},
		"no kind": {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "a/v1"}}, conformance.InfraMachine, contract.V1Beta2,
			"MUST kind: found nothing, want string"},
	} {
		t.Run(name, func(t *testing.T) {
			findings := conformance.CheckObject(c.obj, c.role, c.version).Findings
			require.Len(t, findings, 1)
			require.Contains(t, findings[0].String(), c.want)
		})
	}
}
