package contract_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

const fullHealthCheckV1Beta2 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineHealthCheck",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","unknown":"kept","selector":` + selectorText + `,
		"checks":{"nodeStartupTimeoutSeconds":0,
			"unhealthyNodeConditions":[{"type":"Ready","status":"Unknown","timeoutSeconds":300},{"type":"Ready","status":"False","timeoutSeconds":90}],
			"unhealthyMachineConditions":[{"type":"Synced","status":"False","timeoutSeconds":0}]},
		"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":"40%","unhealthyInRange":"[1-3]"},
			"templateRef":{"apiVersion":"remediation.example.com/v1alpha1","kind":"RebootTemplate","name":"r1"}}
	},
	"status":{
		"expectedMachines":3,"currentHealthy":0,"remediationsAllowed":1,"observedGeneration":6,"targets":["m1","m2"],"unknown":"kept",
		"conditions":` + setConditions + `,"deprecated":{"v1beta1":{"conditions":` + oldConditions + `}}
	}
}`

const fullHealthCheckV1Beta1 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"MachineHealthCheck",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","unknown":"kept","selector":` + selectorText + `,
		"nodeStartupTimeout":"0s","maxUnhealthy":"40%","unhealthyRange":"[1-3]",
		"unhealthyConditions":[{"type":"Ready","status":"Unknown","timeout":"5m"},{"type":"Ready","status":"False","timeout":"1m30s"}],
		"unhealthyMachineConditions":[{"type":"Synced","status":"False","timeout":"0s"}],
		"remediationTemplate":{"apiVersion":"remediation.example.com/v1alpha1","kind":"RebootTemplate","namespace":"default","name":"r1"}
	},
	"status":{
		"expectedMachines":3,"currentHealthy":0,"remediationsAllowed":1,"observedGeneration":6,"targets":["m1","m2"],"unknown":"kept",
		"conditions":` + oldConditions + `,"v1beta2":{"conditions":` + setConditions + `}
	}
}`

func healthCheckState() contract.HealthCheckState {
	return contract.HealthCheckState{
		Metadata: setMeta(), ClusterName: "c1", Selector: setSelector(),
		UnhealthyNodeConditions: []contract.UnhealthyCondition{
			{Type: "Ready", Status: "Unknown", Timeout: 5 * time.Minute}, {Type: "Ready", Status: "False", Timeout: 90 * time.Second},
		},
		UnhealthyMachineConditions: []contract.UnhealthyCondition{{Type: "Synced", Status: "False"}},
		NodeStartupTimeout:         contract.Some(time.Duration(0)),
		MaxUnhealthy:               contract.Some(intstr.FromString("40%")), UnhealthyRange: "[1-3]",
		RemediationTemplate: contract.VersionedRef{
			Ref: contract.Ref{Group: "remediation.example.com", Kind: "RebootTemplate", Name: "r1"}, Version: "v1alpha1",
		},
		ExpectedMachines: contract.Some(int32(3)), CurrentHealthy: contract.Some(int32(0)), RemediationsAllowed: contract.Some(int32(1)),
		Targets: []string{"m1", "m2"}, Conditions: fullState().Conditions, ObservedGeneration: 6,
	}
}

func healthCheckUpdate() contract.HealthCheckUpdate {
	return contract.HealthCheckUpdate{
		MetadataUpdate:   fullUpdate().MetadataUpdate,
		ExpectedMachines: contract.SetTo(int32(0)), CurrentHealthy: contract.SetTo(int32(5)), RemediationsAllowed: contract.SetTo(int32(0)),
		Targets: contract.SetTo([]string{"m3"}), ObservedGeneration: contract.SetTo(int64(8)),
		Conditions: fullUpdate().Conditions, RemoveConditions: fullUpdate().RemoveConditions,
	}
}

func applyHealthCheck(s *contract.HealthCheckState) {
	applyMetadata(&s.Metadata)
	s.ExpectedMachines, s.CurrentHealthy, s.RemediationsAllowed = contract.Some(int32(0)), contract.Some(int32(5)), contract.Some(int32(0))
	s.Targets, s.ObservedGeneration, s.Conditions = []string{"m3"}, 8, fullUpdate().Conditions
}

type healthCheckCase = setCase[contract.HealthCheckState, contract.HealthCheckUpdate]

func healthCheckCases() []healthCheckCase {
	places := []string{"status.expectedMachines", "status.currentHealthy", "status.remediationsAllowed", "status.targets",
		"status.observedGeneration", "status.conditions"}
	return []healthCheckCase{
		{
			layout: contract.HealthCheckV1Beta1(), kind: "machinehealthchecks", version: "v1beta1", full: fullHealthCheckV1Beta1,
			state: healthCheckState(), update: healthCheckUpdate(), apply: applyHealthCheck, writes: append(places, "status.v1beta2.conditions"),
		},
		{
			layout: contract.HealthCheckV1Beta2(), kind: "machinehealthchecks", version: "v1beta2", full: fullHealthCheckV1Beta2,
			state: healthCheckState(), update: healthCheckUpdate(), apply: applyHealthCheck, writes: places,
		},
	}
}

func TestHealthCheck_IsReadAndWrittenInBothVersions(t *testing.T) {
	for _, c := range healthCheckCases() {
		c.check(t)
	}
}

func TestHealthCheck_RulesThatCannotBeReadAreErrorsThatNameTheEntry(t *testing.T) {
	for name, c := range map[string]struct {
		layout     *contract.HealthCheckLayout
		text, want string
	}{
		"text for seconds": {
			contract.HealthCheckV1Beta2(), `{"spec":{"checks":{"unhealthyNodeConditions":[{"type":"T","status":"False","timeoutSeconds":"5m"}]}}}`,
			"spec.checks.unhealthyNodeConditions.0.timeoutSeconds: want 32-bit integer, found string",
		},
		"seconds for text": {
			contract.HealthCheckV1Beta1(), `{"spec":{"unhealthyConditions":[{"type":"T","status":"False","timeout":300}]}}`,
			"spec.unhealthyConditions.0.timeout: want string, found integer",
		},
		"no duration": {
			contract.HealthCheckV1Beta1(), `{"spec":{"unhealthyMachineConditions":[{"type":"T","status":"False","timeout":"soon"}]}}`,
			"spec.unhealthyMachineConditions.0.timeout: want duration such as 1m30s, found unreadable text",
		},
		"the member of the other version": {
			contract.HealthCheckV1Beta2(), `{"spec":{"checks":{"unhealthyNodeConditions":[{"type":"T","status":"False","timeout":"5m"}]}}}`,
			"spec.checks.unhealthyNodeConditions.0.timeoutSeconds: want timeout, found nothing",
		},
		"no type":      {contract.HealthCheckV1Beta1(), `{"spec":{"unhealthyConditions":[{}]}}`, "spec.unhealthyConditions.0.type: want string, found nothing"},
		"no status":    {contract.HealthCheckV1Beta1(), `{"spec":{"unhealthyConditions":[{"type":"T"}]}}`, "spec.unhealthyConditions.0.status: want string, found nothing"},
		"no object":    {contract.HealthCheckV1Beta1(), `{"spec":{"unhealthyConditions":[[]]}}`, "spec.unhealthyConditions.0: want object, found list"},
		"a wide limit": {contract.HealthCheckV1Beta1(), `{"spec":{"maxUnhealthy":5000000000}}`, "spec.maxUnhealthy: want 32-bit integer or string, found integer 5000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			err := contract.Unstructured(machineGVK, c.layout).Adapter.Read(parseObject(t, c.text), &contract.HealthCheckState{})
			require.ErrorIs(t, err, contract.ErrWrongType)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestHealthCheck_TheTemplateKeepsItsVersion(t *testing.T) {
	adapter := contract.Unstructured(machineGVK, contract.HealthCheckV1Beta2()).Adapter
	for text, want := range map[string]schema.GroupVersionKind{
		`{"apiVersion":"g.example.com/v1","kind":"K","name":"n"}`: {Group: "g.example.com", Version: "v1", Kind: "K"},
		`{"apiVersion":"v1","kind":"K","name":"n"}`:               {Version: "v1", Kind: "K"},
		`{"kind":"K","name":"n"}`:                                 {Kind: "K"},
	} {
		var state contract.HealthCheckState
		require.NoError(t, adapter.Read(parseObject(t, `{"spec":{"remediation":{"templateRef":`+text+`}}}`), &state))
		require.Equal(t, want, state.RemediationTemplate.GroupVersionKind(), text)
		require.False(t, state.RemediationTemplate.IsZero())
	}
	require.True(t, contract.VersionedRef{}.IsZero())
}

func FuzzHealthCheckReadAndWrite(f *testing.F) { fuzzSet(f, healthCheckCases()) }
