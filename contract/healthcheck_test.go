package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

const fullHealthCheckV1Beta2 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineHealthCheck",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","selector":` + selectorText + `,"unknown":"kept",
		"checks":{"nodeStartupTimeoutSeconds":0,
			"unhealthyNodeConditions":[{"type":"Ready","status":"Unknown","timeoutSeconds":300},
				{"type":"KernelDeadlock","status":"True","timeoutSeconds":0}],
			"unhealthyMachineConditions":[{"type":"InfrastructureReady","status":"False","timeoutSeconds":60}]},
		"remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":"40%","unhealthyInRange":"[3-5]"},
			"templateRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"RemediationTemplate","name":"t"}}
	},
	"status":{"expectedMachines":5,"currentHealthy":4,"remediationsAllowed":0,"targets":["a","b"],"observedGeneration":6,"unknown":"kept",
		"conditions":` + setConditions + `,"deprecated":{"v1beta1":{"conditions":` + oldConditions + `}}}
}`

const fullHealthCheckV1Beta1 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"MachineHealthCheck",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","selector":` + selectorText + `,"unknown":"kept","nodeStartupTimeout":"0s",
		"unhealthyConditions":[{"type":"Ready","status":"Unknown","timeout":"5m"},{"type":"KernelDeadlock","status":"True","timeout":"0s"}],
		"unhealthyMachineConditions":[{"type":"InfrastructureReady","status":"False","timeout":"1m0s"}],
		"maxUnhealthy":"40%","unhealthyRange":"[3-5]",
		"remediationTemplate":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"RemediationTemplate","name":"t","namespace":"n"}
	},
	"status":{"expectedMachines":5,"currentHealthy":4,"remediationsAllowed":0,"targets":["a","b"],"observedGeneration":6,"unknown":"kept",
		"conditions":` + oldConditions + `,"v1beta2":{"conditions":` + setConditions + `}}
}`

func healthCheckState() contract.HealthCheckState {
	return contract.HealthCheckState{
		Metadata: setMeta(), ClusterName: "c1", Selector: setSelector(),
		NodeRules: []contract.HealthRule{{Type: "Ready", Status: metav1.ConditionUnknown, Timeout: 5 * time.Minute},
			{Type: "KernelDeadlock", Status: metav1.ConditionTrue}},
		MachineRules: []contract.HealthRule{{Type: "InfrastructureReady", Status: metav1.ConditionFalse, Timeout: time.Minute}},
		NodeStartup:  contract.Some[time.Duration](0), MaxUnhealthy: contract.Some(intstr.FromString("40%")), UnhealthyRange: "[3-5]",
		Template:        contract.Ref{Group: "infrastructure.cluster.x-k8s.io", Kind: "RemediationTemplate", Name: "t"},
		TemplateVersion: "v1beta1", ExpectedMachines: contract.Some[int32](5), CurrentHealthy: contract.Some[int32](4),
		RemediationsAllowed: contract.Some[int32](0), Targets: []string{"a", "b"}, Conditions: replicatedState().Conditions,
		ObservedGeneration: 6,
	}
}

func healthCheckUpdate() contract.HealthCheckUpdate {
	shared := replicatedUpdate()
	return contract.HealthCheckUpdate{
		MetadataUpdate: fullUpdate().MetadataUpdate, ExpectedMachines: contract.SetTo[int32](7), CurrentHealthy: contract.SetTo[int32](0),
		RemediationsAllowed: contract.SetTo[int32](3), Targets: contract.SetTo([]string{"c"}), ObservedGeneration: contract.SetTo[int64](7),
		Conditions: shared.Conditions, RemoveConditions: shared.RemoveConditions,
	}
}

func applyHealthCheck(s *contract.HealthCheckState) {
	applyMetadata(&s.Metadata)
	replicated := contract.ReplicatedState{Conditions: s.Conditions}
	applyReplicated(&replicated)
	s.Conditions = replicated.Conditions
	s.ExpectedMachines, s.CurrentHealthy = contract.Some[int32](7), contract.Some[int32](0)
	s.RemediationsAllowed, s.Targets, s.ObservedGeneration = contract.Some[int32](3), []string{"c"}, 7
}

func healthCheckCases() []setCase[contract.HealthCheckState, contract.HealthCheckUpdate] {
	writes := []string{"status.expectedMachines", "status.currentHealthy", "status.remediationsAllowed", "status.targets",
		"status.observedGeneration", "status.conditions"}
	one := setCase[contract.HealthCheckState, contract.HealthCheckUpdate]{
		layout: contract.LayoutsOf(contract.V1Beta2).HealthCheck, kind: "machinehealthchecks", version: "v1beta2", full: fullHealthCheckV1Beta2,
		state: healthCheckState(), update: healthCheckUpdate(), apply: applyHealthCheck, writes: writes,
	}
	other := one
	other.layout, other.version, other.full = contract.LayoutsOf(contract.V1Beta1).HealthCheck, "v1beta1", fullHealthCheckV1Beta1
	other.writes = append(slices.Clone(writes), "status.v1beta2.conditions")
	return []setCase[contract.HealthCheckState, contract.HealthCheckUpdate]{other, one}
}

func TestHealthCheck_IsReadAndWrittenInBothVersions(t *testing.T) {
	for _, c := range healthCheckCases() {
		c.check(t)
	}
}

// A rule that is read as another one would have healthy Machines replaced.
func TestHealthCheck_IncompleteRules(t *testing.T) {
	for text, want := range map[string]string{
		`[{"type":"Ready","status":"False"}]`:                     "unhealthyNodeConditions.0.timeoutSeconds: want seconds, found nothing",
		`[{"type":"Ready","status":"False","timeoutSeconds":-1}]`: "unhealthyNodeConditions.0.timeoutSeconds: want seconds, found -1s",
		`[{"type":"Ready","timeoutSeconds":5}]`:                   "unhealthyNodeConditions.0.status: want string, found nothing",
		`[{"status":"False","timeoutSeconds":5}]`:                 "unhealthyNodeConditions.0.type: want string, found nothing",
	} {
		adapter := contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).HealthCheck).Adapter
		err := adapter.Read(parseObject(t, `{"spec":{"checks":{"unhealthyNodeConditions":`+text+`}}}`), &contract.HealthCheckState{})
		require.ErrorIs(t, err, contract.ErrWrongType)
		require.ErrorContains(t, err, want)
	}
}

func TestCluster_InfrastructureReady(t *testing.T) {
	const condition = `{"conditions":[{"type":"InfrastructureReady","lastTransitionTime":"2026-03-01T12:00:00Z","status":`
	for status, want := range map[string]contract.ClusterState{
		`{}`:                       {},
		condition + `"True"}]}`:    {InfrastructureReadyAt: noon},
		condition + `"False"}]}`:   {InfrastructureUnready: true},
		condition + `"Unknown"}]}`: {InfrastructureUnready: true},
	} {
		state := contract.ClusterState{InfrastructureUnready: true, InfrastructureReadyAt: noon.Add(time.Hour)}
		require.NoError(t, contract.LayoutsOf(contract.V1Beta2).Cluster.Read(parseObject(t, `{"status":`+status+`}`), &state))
		require.Empty(t, cmp.Diff(want, state))
	}
}

func FuzzHealthCheckReadAndWrite(f *testing.F) { fuzzSet(f, healthCheckCases()) }
