package contract_test

import (
	"testing"

	"github.com/machinist-dev/machinist/contract"
)

const fullMachineSetV1Beta2 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineSet",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","replicas":0,"unknown":"kept","selector":` + selectorText + `,"template":` + templateV1Beta2 + `,
		"deletion":{"order":"Oldest"},"machineNaming":{"template":"{{ .random }}"}
	},
	"status":{
		"replicas":5,"readyReplicas":4,"availableReplicas":3,"upToDateReplicas":0,"selector":"a=b","observedGeneration":6,"unknown":"kept",
		"conditions":` + setConditions + `,
		"deprecated":{"v1beta1":{"readyReplicas":2,"availableReplicas":1,"fullyLabeledReplicas":9,"failureReason":"FR","failureMessage":"FM",
			"conditions":` + oldConditions + `}}
	}
}`

const fullMachineSetV1Beta1 = `{
	"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"MachineSet",` + setMetadata + `,
	"spec":{
		"clusterName":"c1","replicas":0,"unknown":"kept","selector":` + selectorText + `,"template":` + templateV1Beta1 + `,
		"deletePolicy":"Oldest","machineNamingStrategy":{"template":"{{ .random }}"},"minReadySeconds":30
	},
	"status":{
		"replicas":5,"readyReplicas":2,"availableReplicas":1,"fullyLabeledReplicas":9,"selector":"a=b","observedGeneration":6,"unknown":"kept",
		"failureReason":"FR","failureMessage":"FM","conditions":` + oldConditions + `,
		"v1beta2":{"readyReplicas":4,"availableReplicas":3,"upToDateReplicas":0,"conditions":` + setConditions + `}
	}
}`

func machineSetState() contract.MachineSetState {
	return contract.MachineSetState{
		Metadata: setMeta(), ReplicatedState: replicatedState(),
		FullyLabeledReplicas: contract.Some(int32(9)),
	}
}

func machineSetUpdate() contract.MachineSetUpdate {
	return contract.MachineSetUpdate{
		MetadataUpdate: fullUpdate().MetadataUpdate, ReplicatedUpdate: replicatedUpdate(),
		FullyLabeledReplicas: contract.SetTo(int32(0)),
	}
}

func applyMachineSet(s *contract.MachineSetState) {
	applyMetadata(&s.Metadata)
	applyReplicated(&s.ReplicatedState)
	s.FullyLabeledReplicas = contract.Some(int32(0))
}

type machineSetCase = setCase[contract.MachineSetState, contract.MachineSetUpdate]

func machineSetCases() []machineSetCase {
	const old = "status.deprecated.v1beta1."
	return append([]machineSetCase{
		{
			layout: contract.LayoutsOf(contract.V1Beta1).MachineSet, kind: "machinesets", version: "v1beta1", full: fullMachineSetV1Beta1,
			state: machineSetState(), unsaid: []string{"Provider", "NodeLabels", "NodeAnnotations"},
			update: machineSetUpdate(), apply: applyMachineSet, writes: replicatedWrites("v1beta1", "status.fullyLabeledReplicas"),
		},
		{
			layout: contract.LayoutsOf(contract.V1Beta2).MachineSet, kind: "machinesets", version: "v1beta2", full: fullMachineSetV1Beta2,
			state: machineSetState(), unsaid: []string{"Provider", "NodeLabels", "NodeAnnotations"},
			update: machineSetUpdate(), apply: applyMachineSet, writes: replicatedWrites("v1beta2", old+"fullyLabeledReplicas"),
		},
	}, foreignMachineSetCases()...)
}

func TestMachineSet_IsReadAndWrittenInEveryShape(t *testing.T) {
	for _, c := range machineSetCases() {
		c.check(t)
	}
}

func FuzzMachineSetReadAndWrite(f *testing.F) { fuzzSet(f, machineSetCases()) }
