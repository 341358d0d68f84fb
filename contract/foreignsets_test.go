package contract_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
)

// Templates of the other systems. Their sets and deployments are made of them.
const (
	templateKubermatic = `{"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"}},"spec":{
		"metadata":{"labels":{"of":"the Node"},"annotations":{"its":"own"}},"providerID":"p://t","versions":{"kubelet":"1.36.3"},
		"taints":[{"key":"k","effect":"NoSchedule"}],
		"providerSpec":{"valueFrom":{"machineClass":{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"MachineClass","name":"small"}}}}}`
	templateGardener = `{"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"}},"spec":{
		"class":{"apiGroup":"machine.sapcloud.io","kind":"MachineClass","name":"small"},"providerID":"p://t","drainTimeout":"0s",
		"healthTimeout":"10m0s","nodeTemplate":{"metadata":{"labels":{"of":"the Node"},"annotations":{"its":"own"}},
		"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}}}`
	setSpec = `"replicas":0,"minReadySeconds":30,"selector":` + selectorText
)

// foreignMetadata is the metadata of a full object with annotations of this module, which are returned too.
func foreignMetadata(annotations map[string]string) (text string, meta contract.Metadata) {
	meta = setMeta()
	maps.Copy(meta.Annotations, annotations)
	var more strings.Builder
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		more.WriteString(`,"` + key + `":"` + annotations[key] + `"`)
	}
	return strings.Replace(setMetadata, `"other":"kept"`, `"other":"kept"`+more.String(), 1), meta
}

// foreignReplicated takes out of a state what a system has no place for.
func foreignReplicated(system string, s *contract.ReplicatedState) {
	var none contract.Opt[int32]
	s.ClusterName, s.SelectorText, s.MachineNaming, s.UpToDateReplicas = "", "", "", none
	if system == "Kubermatic" {
		s.ReadyReplicas, s.AvailableReplicas = none, none
		return
	}
	s.NodeReadyReplicas, s.NodeAvailableReplicas, s.DeletionOrder = none, none, ""
	for i := range s.Conditions {
		s.Conditions[i].ObservedGeneration = 0
	}
}

// foreignSetState is what the full sets and deployments of a system say.
func foreignSetState(system string) contract.ReplicatedState {
	s, spec := replicatedState(), setTemplate().MachineSpec
	foreignReplicated(system, &s)
	s.Template.MachineSpec = contract.MachineSpec{ProviderID: "p://t", MinReady: spec.MinReady, Taints: spec.Taints,
		NodeLabels: map[string]string{"of": "the Node"}, NodeAnnotations: map[string]string{"its": "own"},
		Provider: contract.ProviderSpec{Class: contract.Ref{Group: "cluster.k8s.io", Kind: "MachineClass", Name: "small"}}}
	s.Template.Taints[0].Propagation = ""
	if system == "Kubermatic" {
		s.Template.Version = "1.36.3"
		return s
	}
	s.Template.Provider.Class.Group, s.Template.NodeDrainTimeout = "machine.sapcloud.io", spec.NodeDrainTimeout
	return s
}

func foreignUnsaid(system string, more ...string) []string {
	more = append(more, "ClusterName", "Bootstrap", "Infrastructure", "DataSecretName", "WantedFailureDomain", "NodeVolumeDetachTimeout",
		"NodeDeletionTimeout", "ReadinessGates", "SelectorText", "UpToDateReplicas", "MachineNaming")
	if system == "Kubermatic" {
		return append(more, "NodeDrainTimeout", "ReadyReplicas", "AvailableReplicas")
	}
	return append(more, "Version", "NodeReadyReplicas", "NodeAvailableReplicas", "DeletionOrder")
}

func foreignWrites(more ...string) []string {
	return append(more, "spec.replicas", "status.replicas", "status.readyReplicas", "status.availableReplicas", "status.observedGeneration")
}

func foreignMachineSetCases() []machineSetCase {
	kubermatic, kubermaticMeta := foreignMetadata(nil)
	gardener, gardenerMeta := foreignMetadata(nil)
	state := func(system string, meta contract.Metadata) contract.MachineSetState {
		s := machineSetState()
		s.Metadata, s.ReplicatedState = meta, foreignSetState(system)
		return s
	}
	return []machineSetCase{
		{
			layout: contract.KubermaticLayouts().MachineSet, kind: "machinesets", version: "Kubermatic",
			full: `{` + kubermatic + `,"spec":{` + setSpec + `,"deletePolicy":"Oldest","template":` + templateKubermatic + `},
				"status":{"replicas":5,"readyReplicas":2,"availableReplicas":1,"fullyLabeledReplicas":9,"observedGeneration":6,
				"errorReason":"FR","errorMessage":"FM","conditions":` + setConditions + `}}`,
			state: state("Kubermatic", kubermaticMeta), unsaid: foreignUnsaid("Kubermatic"), update: machineSetUpdate(),
			apply: func(s *contract.MachineSetState) {
				applyMachineSet(s)
				foreignReplicated("Kubermatic", &s.ReplicatedState)
			},
			writes: foreignWrites("status.fullyLabeledReplicas", "status.conditions"),
		},
		{
			layout: contract.GardenerLayouts().MachineSet, kind: "machinesets", version: "Gardener",
			full: `{` + gardener + `,"spec":{` + setSpec + `,"template":` + templateGardener + `},
				"status":{"replicas":5,"readyReplicas":4,"availableReplicas":3,"fullyLabeledReplicas":9,"observedGeneration":6,
				"machineSetCondition":` + nodeConditionsBefore + `}}`,
			state: state("Gardener", gardenerMeta), unsaid: foreignUnsaid("Gardener"), update: machineSetUpdate(),
			apply: func(s *contract.MachineSetState) {
				applyMachineSet(s)
				foreignReplicated("Gardener", &s.ReplicatedState)
			},
			writes: foreignWrites("status.fullyLabeledReplicas", "status.machineSetCondition"),
		},
	}
}

func foreignMachineDeploymentCases() []machineDeploymentCase {
	gardener, gardenerMeta := foreignMetadata(nil)
	kubermatic, kubermaticMeta := foreignMetadata(map[string]string{contract.RollbackToAnnotation: "3",
		contract.RolloutTypeAnnotation: contract.RolloutInPlace, contract.OrchestrationAnnotation: contract.OrchestrationManual})
	state := func(system string, meta contract.Metadata) contract.MachineDeploymentState {
		s := machineDeploymentState()
		s.Metadata, s.ReplicatedState, s.RemediationMaxInFlight = meta, foreignSetState(system), contract.Opt[intstr.IntOrString]{}
		s.DeletionOrder, s.Phase, s.RolloutAfter = "", "", time.Time{}
		return s
	}
	apply := func(system string) func(*contract.MachineDeploymentState) {
		return func(s *contract.MachineDeploymentState) {
			applyMachineDeployment(s)
			foreignReplicated(system, &s.ReplicatedState)
			s.DeletionOrder, s.Phase, s.RolloutAfter = "", "", time.Time{}
			if system == "Gardener" {
				delete(s.Annotations, contract.RollbackToAnnotation)
			}
		}
	}
	const history, numbers = `"revisionHistoryLimit":1,"progressDeadlineSeconds":600,"paused":true`, `{"maxSurge":0,"maxUnavailable":"30%"}`
	const counted = `"replicas":5,"updatedReplicas":9,"unavailableReplicas":8,"observedGeneration":6`
	writes := foreignWrites("spec.paused", "status.unavailableReplicas", "status.updatedReplicas", "status.conditions")
	return []machineDeploymentCase{
		{
			layout: contract.KubermaticLayouts().MachineDeployment, kind: "machinedeployments", version: "Kubermatic",
			full: `{` + kubermatic + `,"spec":{` + setSpec + `,` + history + `,"template":` + templateKubermatic + `,
				"strategy":{"type":"RollingUpdate","rollingUpdate":` + numbers + `}},
				"status":{` + counted + `,"readyReplicas":2,"availableReplicas":1,"conditions":` + setConditions + `}}`,
			state:  state("Kubermatic", kubermaticMeta),
			unsaid: foreignUnsaid("Kubermatic", "RemediationMaxInFlight", "DeletionOrder", "Phase", "RolloutAfter"),
			update: machineDeploymentUpdate(), apply: apply("Kubermatic"), writes: writes,
		},
		{
			layout: contract.GardenerLayouts().MachineDeployment, kind: "machinedeployments", version: "Gardener",
			full: `{` + gardener + `,"spec":{` + setSpec + `,` + history + `,"template":` + templateGardener + `,"rollbackTo":{"revision":3},
				"strategy":{"type":"InPlaceUpdate","inPlaceUpdate":{"maxSurge":0,"maxUnavailable":"30%","orchestrationType":"Manual"},
				"rollingUpdate":{"maxSurge":7,"maxUnavailable":7}}},
				"status":{` + counted + `,"readyReplicas":4,"availableReplicas":3,"conditions":` + nodeConditionsBefore + `}}`,
			state: state("Gardener", gardenerMeta), unsaid: foreignUnsaid("Gardener", "RemediationMaxInFlight", "Phase", "RolloutAfter"),
			update: machineDeploymentUpdate(), apply: apply("Gardener"),
			writes: append(slices.Clone(writes), "spec.rollbackTo.revision"),
		},
	}
}
