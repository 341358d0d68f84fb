package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// templateV1Beta1 and templateV1Beta2 are a template of Machines in both versions, and setTemplate what they say.
const (
	templateV1Beta1 = `{
		"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"},"unknown":"kept"},
		"spec":{
			"clusterName":"c1","version":"v1.36.3","providerID":"p://t","failureDomain":"wanted","unknown":"kept",
			"bootstrap":{"configRef":{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta1","kind":"KubeadmConfigTemplate","namespace":"default","name":"b1"},
				"dataSecretName":""},
			"infrastructureRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1","kind":"AWSMachineTemplate","name":"i1"},
			"nodeDrainTimeout":"0s","nodeDeletionTimeout":"10s","nodeVolumeDetachTimeout":"1m5s","minReadySeconds":7,
			"readinessGates":[{"conditionType":"Synced"}],"taints":[{"key":"k","effect":"NoSchedule","propagation":"Always"}]
		}}`
	templateV1Beta2 = `{
		"metadata":{"labels":{"l":"1"},"annotations":{"a":"2"},"unknown":"kept"},
		"spec":{
			"clusterName":"c1","version":"v1.36.3","providerID":"p://t","failureDomain":"wanted","unknown":"kept",
			"bootstrap":{"configRef":{"apiGroup":"bootstrap.cluster.x-k8s.io","kind":"KubeadmConfigTemplate","name":"b1"},"dataSecretName":""},
			"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"AWSMachineTemplate","name":"i1"},
			"deletion":{"nodeDrainTimeoutSeconds":0,"nodeDeletionTimeoutSeconds":10,"nodeVolumeDetachTimeoutSeconds":65},"minReadySeconds":30,
			"readinessGates":[{"conditionType":"Synced"}],"taints":[{"key":"k","effect":"NoSchedule","propagation":"Always"}]
		}}`
)

func setTemplate() contract.MachineTemplate {
	return contract.MachineTemplate{
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		MachineSpec: contract.MachineSpec{
			ClusterName:         "c1",
			Bootstrap:           contract.Ref{Group: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfigTemplate", Name: "b1"},
			Infrastructure:      contract.Ref{Group: "infrastructure.cluster.x-k8s.io", Kind: "AWSMachineTemplate", Name: "i1"},
			DataSecretName:      contract.Some(""),
			ProviderID:          "p://t",
			Version:             "v1.36.3",
			WantedFailureDomain: "wanted",
			NodeDrainTimeout:    contract.Some(time.Duration(0)), NodeDeletionTimeout: contract.Some(10 * time.Second),
			NodeVolumeDetachTimeout: contract.Some(65 * time.Second), MinReady: contract.Some(30 * time.Second),
			ReadinessGates: []contract.ReadinessGate{{ConditionType: "Synced"}},
			Taints:         []contract.Taint{{Key: "k", Effect: "NoSchedule", Propagation: "Always"}},
		},
	}
}

// replicatedState is what all full sets here say.
func replicatedState() contract.ReplicatedState {
	return contract.ReplicatedState{
		ClusterName: "c1", Replicas: contract.Some(int32(0)), Selector: setSelector(), Template: setTemplate(),
		DeletionOrder: "Oldest", MachineNaming: "{{ .random }}", SelectorText: "a=b",
		ObservedReplicas: contract.Some(int32(5)), ReadyReplicas: contract.Some(int32(4)), AvailableReplicas: contract.Some(int32(3)),
		UpToDateReplicas: contract.Some(int32(0)), NodeReadyReplicas: contract.Some(int32(2)), NodeAvailableReplicas: contract.Some(int32(1)),
		Conditions: fullState().Conditions, ObservedGeneration: 6,
	}
}

func replicatedUpdate() contract.ReplicatedUpdate {
	return contract.ReplicatedUpdate{
		Replicas: contract.SetTo(int32(3)), SelectorText: contract.SetTo("c=d"), ObservedReplicas: contract.SetTo(int32(0)),
		ReadyReplicas: contract.SetTo(int32(8)), AvailableReplicas: contract.SetTo(int32(7)), UpToDateReplicas: contract.SetTo(int32(6)),
		NodeReadyReplicas: contract.SetTo(int32(5)), NodeAvailableReplicas: contract.SetTo(int32(4)),
		ObservedGeneration: contract.SetTo(int64(8)),
		Conditions:         fullUpdate().Conditions, RemoveConditions: fullUpdate().RemoveConditions,
	}
}

func applyReplicated(s *contract.ReplicatedState) {
	s.Replicas, s.ObservedReplicas = contract.Some(int32(3)), contract.Some(int32(0))
	s.ReadyReplicas, s.AvailableReplicas, s.UpToDateReplicas = contract.Some(int32(8)), contract.Some(int32(7)), contract.Some(int32(6))
	s.NodeReadyReplicas, s.NodeAvailableReplicas = contract.Some(int32(5)), contract.Some(int32(4))
	s.SelectorText, s.ObservedGeneration, s.Conditions = "c=d", 8, fullUpdate().Conditions
}

// replicatedWrites are the places of replicatedUpdate in a version, and more.
func replicatedWrites(version string, more ...string) []string {
	more = append(more, "spec.replicas", "status.replicas", "status.readyReplicas", "status.availableReplicas", "status.observedGeneration",
		"status.selector", "status.conditions")
	if version == "v1beta1" {
		return append(more, "status.v1beta2.readyReplicas", "status.v1beta2.availableReplicas", "status.v1beta2.upToDateReplicas",
			"status.v1beta2.conditions")
	}
	return append(more, "status.upToDateReplicas", "status.deprecated.v1beta1.readyReplicas", "status.deprecated.v1beta1.availableReplicas")
}

// Cluster API's own conversion does not turn counters by Nodes into counters by conditions either, nor back.
func TestSets_CountersByNodesAndByConditionsAreNotMixed(t *testing.T) {
	byConditions := contract.MachineSetUpdate{ReplicatedUpdate: contract.ReplicatedUpdate{
		ReadyReplicas: contract.SetTo(int32(1)), AvailableReplicas: contract.SetTo(int32(0)), UpToDateReplicas: contract.SetTo(int32(2)),
	}}
	byNodes := contract.MachineSetUpdate{ReplicatedUpdate: contract.ReplicatedUpdate{
		NodeReadyReplicas: contract.SetTo(int32(1)), NodeAvailableReplicas: contract.SetTo(int32(0)),
	}}
	for name, c := range map[string]struct {
		layout *contract.MachineSetLayout
		update contract.MachineSetUpdate
		want   string
	}{
		"by conditions in v1beta1": {contract.LayoutsOf(contract.V1Beta1).MachineSet, byConditions,
			`{"status":{"v1beta2":{"readyReplicas":1,"availableReplicas":0,"upToDateReplicas":2}}}`},
		"by conditions in v1beta2": {contract.LayoutsOf(contract.V1Beta2).MachineSet, byConditions,
			`{"status":{"readyReplicas":1,"availableReplicas":0,"upToDateReplicas":2}}`},
		"by Nodes in v1beta1": {contract.LayoutsOf(contract.V1Beta1).MachineSet, byNodes, `{"status":{"readyReplicas":1,"availableReplicas":0}}`},
		"by Nodes in v1beta2": {contract.LayoutsOf(contract.V1Beta2).MachineSet, byNodes,
			`{"status":{"deprecated":{"v1beta1":{"readyReplicas":1,"availableReplicas":0}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			adapter, obj := contract.Unstructured(machineGVK, c.layout).Adapter, parseObject(t, `{}`)
			require.NoError(t, adapter.Write(obj, c.update))
			require.Empty(t, cmp.Diff(parseJSON(t, c.want), obj.Object))
			var state contract.MachineSetState
			require.NoError(t, adapter.Read(obj, &state))
			require.Equal(t, c.update.ReadyReplicas.Keeps(), !state.ReadyReplicas.Found())
			require.Equal(t, c.update.NodeReadyReplicas.Keeps(), !state.NodeReadyReplicas.Found())
		})
	}
}

func TestSets_ZeroReplicas(t *testing.T) {
	adapter := contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).MachineSet).Adapter
	obj := parseObject(t, `{"spec":{"replicas":3,"clusterName":"c1"},"status":{"replicas":3}}`)
	write := func(replicas contract.Change[int32]) contract.MachineSetState {
		update := contract.ReplicatedUpdate{Replicas: replicas, ObservedReplicas: replicas}
		require.NoError(t, adapter.Write(obj, contract.MachineSetUpdate{ReplicatedUpdate: update}))
		var state contract.MachineSetState
		require.NoError(t, adapter.Read(obj, &state))
		return state
	}
	require.Equal(t, contract.Some(int32(0)), write(contract.SetTo(int32(0))).Replicas)
	require.Equal(t, contract.Some(int32(0)), write(contract.Change[int32]{}).ObservedReplicas)
	require.Equal(t, contract.Opt[int32]{}, write(contract.Cleared[int32]()).Replicas)
	require.Empty(t, cmp.Diff(parseJSON(t, `{"spec":{"clusterName":"c1"},"status":{}}`), obj.Object))
}

// What a Node must be ready for stood in the sets, before it became a part of what Machines are.
func TestSets_MinReadyIsReadFromWhereTheVersionHasIt(t *testing.T) {
	const both = `{"spec":{"minReadySeconds":1,"template":{"spec":{"minReadySeconds":2}}}}`
	for want, layout := range map[time.Duration]*contract.MachineSetLayout{
		time.Second: contract.LayoutsOf(contract.V1Beta1).MachineSet, 2 * time.Second: contract.LayoutsOf(contract.V1Beta2).MachineSet,
	} {
		var state contract.MachineSetState
		require.NoError(t, contract.Unstructured(machineGVK, layout).Adapter.Read(parseObject(t, both), &state))
		require.Equal(t, contract.Some(want), state.Template.MinReady)
	}
}
