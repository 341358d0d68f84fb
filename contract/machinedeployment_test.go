package contract_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// What both versions have no field for is in annotations.
var deploymentMetadata = strings.Replace(setMetadata, `"other":"kept"`, `"other":"kept","machinist.dev/rollout-type":"InPlaceUpdate",
	"machinist.dev/in-place-orchestration":"Manual","machinist.dev/rollback-to":"3"`, 1)

var fullMachineDeploymentV1Beta2 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment",` + deploymentMetadata + `,
	"spec":{
		"clusterName":"c1","replicas":0,"paused":true,"unknown":"kept","selector":` + selectorText + `,"template":` + templateV1Beta2 + `,
		"deletion":{"order":"Oldest"},"machineNaming":{"template":"{{ .random }}"},"remediation":{"maxInFlight":"20%"},
		"rollout":{"after":"2026-03-01T12:00:00Z","strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":"30%"}}}
	},
	"status":{
		"replicas":5,"readyReplicas":4,"availableReplicas":3,"upToDateReplicas":0,"selector":"a=b","observedGeneration":6,"unknown":"kept",
		"phase":"ScalingUp","conditions":` + setConditions + `,
		"deprecated":{"v1beta1":{"readyReplicas":2,"availableReplicas":1,"unavailableReplicas":8,"updatedReplicas":9,"conditions":` + oldConditions + `}}
	}
}`

var fullMachineDeploymentV1Beta1 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"MachineDeployment",` + deploymentMetadata + `,
	"spec":{
		"clusterName":"c1","replicas":0,"paused":true,"unknown":"kept","selector":` + selectorText + `,"template":` + templateV1Beta1 + `,
		"machineNamingStrategy":{"template":"{{ .random }}"},"minReadySeconds":30,"rolloutAfter":"2026-03-01T12:00:00Z",
		"revisionHistoryLimit":1,"progressDeadlineSeconds":600,
		"strategy":{"type":"RollingUpdate","remediation":{"maxInFlight":"20%"},
			"rollingUpdate":{"maxSurge":0,"maxUnavailable":"30%","deletePolicy":"Oldest"}}
	},
	"status":{
		"replicas":5,"readyReplicas":2,"availableReplicas":1,"unavailableReplicas":8,"updatedReplicas":9,"selector":"a=b","observedGeneration":6,
		"unknown":"kept","phase":"ScalingUp","conditions":` + oldConditions + `,
		"v1beta2":{"readyReplicas":4,"availableReplicas":3,"upToDateReplicas":0,"conditions":` + setConditions + `}
	}
}`

func machineDeploymentState() contract.MachineDeploymentState {
	state := contract.MachineDeploymentState{
		Metadata: setMeta(), ReplicatedState: replicatedState(),
		RolloutPaused: true, RolloutType: contract.RolloutInPlace, InPlaceOrchestration: contract.OrchestrationManual, RolloutAfter: noon,
		MaxSurge: contract.Some(intstr.FromInt32(0)), MaxUnavailable: contract.Some(intstr.FromString("30%")),
		RemediationMaxInFlight: contract.Some(intstr.FromString("20%")), RollbackTo: contract.Some(int64(3)),
		RevisionHistoryLimit: contract.Some(int32(1)), ProgressDeadline: contract.Some(10 * time.Minute),
		Phase: "ScalingUp", UnavailableReplicas: contract.Some(int32(8)), UpdatedReplicas: contract.Some(int32(9)),
	}
	maps.Copy(state.Annotations, map[string]string{
		contract.RolloutTypeAnnotation: "InPlaceUpdate", contract.OrchestrationAnnotation: "Manual", contract.RollbackToAnnotation: "3",
	})
	return state
}

// withoutLimits takes out what v1beta2 has no place for any more.
func withoutLimits(s contract.MachineDeploymentState) contract.MachineDeploymentState {
	s.RevisionHistoryLimit, s.ProgressDeadline = contract.Opt[int32]{}, contract.Opt[time.Duration]{}
	return s
}

func machineDeploymentUpdate() contract.MachineDeploymentUpdate {
	return contract.MachineDeploymentUpdate{
		MetadataUpdate: fullUpdate().MetadataUpdate, ReplicatedUpdate: replicatedUpdate(),
		RolloutPaused: contract.SetTo(false), RolloutAfter: contract.SetTo(noon.Add(time.Hour)), RollbackTo: contract.SetTo(int64(0)),
		Phase:               contract.SetTo("Running"),
		UnavailableReplicas: contract.SetTo(int32(0)), UpdatedReplicas: contract.SetTo(int32(0)),
	}
}

func applyMachineDeployment(s *contract.MachineDeploymentState) {
	applyMetadata(&s.Metadata)
	applyReplicated(&s.ReplicatedState)
	s.RolloutPaused, s.RolloutAfter, s.RollbackTo = false, noon.Add(time.Hour), contract.Some(int64(0))
	s.Annotations[contract.RollbackToAnnotation] = "0"
	s.Phase = "Running"
	s.UnavailableReplicas, s.UpdatedReplicas = contract.Some(int32(0)), contract.Some(int32(0))
}

type machineDeploymentCase = setCase[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]

func machineDeploymentCases() []machineDeploymentCase {
	const old = "status.deprecated.v1beta1."
	return append([]machineDeploymentCase{
		{
			layout: contract.LayoutsOf(contract.V1Beta1).MachineDeployment, kind: "machinedeployments", version: "v1beta1",
			full:  fullMachineDeploymentV1Beta1,
			state: machineDeploymentState(), unsaid: []string{"Provider", "NodeLabels", "NodeAnnotations"},
			update: machineDeploymentUpdate(), apply: applyMachineDeployment,
			writes: replicatedWrites("v1beta1", "spec.paused", "spec.rolloutAfter", "status.phase",
				"status.unavailableReplicas", "status.updatedReplicas"),
		},
		{
			layout: contract.LayoutsOf(contract.V1Beta2).MachineDeployment, kind: "machinedeployments", version: "v1beta2",
			full:   fullMachineDeploymentV1Beta2,
			state:  withoutLimits(machineDeploymentState()),
			unsaid: []string{"Provider", "NodeLabels", "NodeAnnotations", "RevisionHistoryLimit", "ProgressDeadline"},
			update: machineDeploymentUpdate(), apply: applyMachineDeployment,
			writes: replicatedWrites("v1beta2", "spec.paused", "spec.rollout.after", "status.phase",
				old+"unavailableReplicas", old+"updatedReplicas"),
		},
	}, foreignMachineDeploymentCases()...)
}

func TestMachineDeployment_IsReadAndWrittenInEveryShape(t *testing.T) {
	for _, c := range machineDeploymentCases() {
		c.check(t)
	}
}

// One pauses the rollout, the other everything.
func TestMachineDeployment_HasTwoPauses(t *testing.T) {
	adapter := contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).MachineDeployment).Adapter
	for text, want := range map[string][2]bool{
		`{}`:                        {false, false},
		`{"spec":{"paused":false}}`: {false, false},
		`{"spec":{"paused":true}}`:  {true, false},
		`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`:      {false, true},
		`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":"false"}}}`: {false, true}, // the presence counts
	} {
		var state contract.MachineDeploymentState
		require.NoError(t, adapter.Read(parseObject(t, text), &state))
		require.Equal(t, want, [2]bool{state.RolloutPaused, state.Paused()}, text)
	}
}

func FuzzMachineDeploymentReadAndWrite(f *testing.F) { fuzzSet(f, machineDeploymentCases()) }
