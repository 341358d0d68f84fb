package conformance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

func TestCheckCRD_InfraMachinePool(t *testing.T) {
	for name, c := range map[string]brokenCRD{
		"neither flag": {
			edits: edits{newer("", "status", "ready"), newer("", "status", "initialization")},
			want:  finds{must(inNewer+"status.initialization.provisioned", "nothing", "boolean")},
			rule:  "InfraMachinePool contract v1beta2, initialization completed",
		},
		"only the flag of the contract's page": {
			edits: edits{newer("", "status", "ready")}, want: finds{should(inNewer+"status.ready", "nothing", "boolean")},
			rule: "Cluster API up to v1.14 reads this one of pools",
		},
		"only the flag that Cluster API reads": {
			edits: edits{newer("", "status", "initialization")},
			want:  finds{should(inNewer+"status.initialization.provisioned", "nothing", "boolean")}, rule: "until contract v1beta1 ends",
		},
		"not the flag of the older contract": {
			edits: edits{older("", "status", "ready")}, want: finds{should(inOlder+"status.ready", "nothing", "boolean")},
		},
		"the newer flag under the older contract": {
			edits: edits{older("", "status", "ready"),
				older("{type: object, properties: {provisioned: {type: boolean}}}", "status", "initialization")},
			want: finds{
				should(inOlder+"status.ready", "nothing", "boolean")},
		},
		"no list of IDs": {
			edits: edits{newer("", "spec", "providerIDList")},
			want:  finds{must(inNewer+"spec.providerIDList", "nothing", "list of strings")}, rule: "providerIDList",
		},
		"a list of something else": {
			edits: edits{newer("{type: array, items: {type: object}}", "spec", "providerIDList")},
			want:  finds{must(inNewer+"spec.providerIDList[]", "object", "string")},
		},
		"no replicas": {
			edits: edits{newer("", "status", "replicas")},
			want:  finds{must(inNewer+"status.replicas", "nothing", "integer")}, rule: "replicas",
		},
		"replicas that may be broken": {
			edits: edits{newer("{type: number}", "status", "replicas")}, want: finds{must(inNewer+"status.replicas", "number", "integer")},
		},
		"a kind that is a list": {
			edits: edits{newer("{type: array, items: {type: string}}", "status", "infrastructureMachineKind")},
			want:  finds{must(inNewer+"status.infrastructureMachineKind", "array", "string")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.role = conformance.InfraMachinePool
			c.check(t)
		})
	}
}

func TestCheckObject_InfraMachinePool(t *testing.T) {
	const both = `initialization: {provisioned: true}, ready: true`
	for name, c := range map[string]objectCase{
		"one that was just made":     {},
		"one that is done":           {object: `spec: {providerIDList: [a, b]}, status: {` + both + `, replicas: 2, ` + ready + `}`},
		"one that is done and empty": {object: `spec: {providerIDList: []}, status: {` + both + `, replicas: 0, ` + ready + `}`},
		"one that is done by contract v1beta1": {version: contract.V1Beta1,
			object: `spec: {providerIDList: [a]}, status: {ready: true, replicas: 1, ` + ready + `}`},
		"done where only Cluster API looks": {object: `spec: {providerIDList: [a]}, status: {ready: true, replicas: 1, ` + ready + `}`},
		"done where only the contract's page looks": {
			object: `spec: {providerIDList: [a]}, status: {initialization: {provisioned: true}, replicas: 1, ` + ready + `}`,
			want:   finds{should("status.ready", "not true, but the pool is provisioned", "true")},
		},
		"replicas without IDs": {
			object: `status: {` + both + `, replicas: 3, ` + ready + `}`,
			want:   finds{must("spec.providerIDList", "nothing", "the IDs of the machines")}, rule: "there are 3 replicas",
		},
		"IDs without replicas": {
			object: `spec: {providerIDList: [a]}, status: {` + both + `, ` + ready + `}`,
			want:   finds{must("status.replicas", "nothing", "integer")},
		},
		"IDs that no MachinePool takes": {
			object: fmt.Sprintf(`spec: {providerIDList: [a, "", %q]}`, strings.Repeat("p", 513)),
			want:   finds{must("spec.providerIDList.1", "an empty text", "an ID"), must("spec.providerIDList.2", "513 characters", "at most 512")},
		},
		"more IDs than a MachinePool takes": {
			object: `spec: {providerIDList: [` + strings.Repeat("a, ", 10_000) + `a]}`,
			want:   finds{must("spec.providerIDList", "10001 IDs", "at most 10000")},
		},
		"values of other types, each found": {
			object: `spec: {providerIDList: [7]}, status: {replicas: 1.5, infrastructureMachineKind: {}}`,
			want: finds{
				must("spec.providerIDList.0", "integer", "string"),
				must("status.infrastructureMachineKind", "object", "string"),
				must("status.replicas", "number", "32-bit integer"),
			},
		},
		"no condition": {
			object: `spec: {providerIDList: [a]}, status: {` + both + `, replicas: 1}`,
			want:   finds{should("status.conditions", "nothing", "conditions")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.role = conformance.InfraMachinePool
			c.check(t)
		})
	}
}
