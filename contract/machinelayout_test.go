package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

var machineGVK = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}

func machineKind() contract.Kind {
	return contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).Machine)
}

// fullMachine is a Machine in the shape of v1beta2 that says everything the layout reads, and things it does not know.
const fullMachine = `{
	"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine",
	"metadata":{
		"namespace":"default","name":"worker-1","uid":"u-1","resourceVersion":"42","generation":7,
		"creationTimestamp":"2026-03-01T12:00:00Z","deletionTimestamp":"2026-03-01T13:00:00Z",
		"labels":{"cluster.x-k8s.io/cluster-name":"c1","x":"y"},
		"annotations":{"machinist.dev/node-uid":"n-uid","other":"kept"},
		"finalizers":["machine.cluster.x-k8s.io"],
		"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineSet","name":"s","uid":"s-uid","controller":true}]
	},
	"spec":{
		"clusterName":"c1","version":"v1.36.3","providerID":"p://1","failureDomain":"wanted",
		"bootstrap":{"configRef":{"apiGroup":"bootstrap.cluster.x-k8s.io","kind":"KubeadmConfig","name":"b1"},"dataSecretName":""},
		"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"AWSMachine","name":"i1"},
		"deletion":{"nodeDrainTimeoutSeconds":0,"nodeDeletionTimeoutSeconds":10,"nodeVolumeDetachTimeoutSeconds":5},
		"minReadySeconds":30,"readinessGates":[{"conditionType":"Synced"},{"conditionType":"Broken","polarity":"Negative"}],
		"taints":[{"key":"k","value":"v","effect":"NoSchedule","propagation":"Always"}]
	},
	"status":{
		"phase":"Deleting","nodeRef":{"name":"n1"},"failureDomain":"a","observedGeneration":6,
		"lastUpdated":"2026-03-01T12:00:00Z","certificatesExpiryDate":"2026-03-02T12:00:00Z",
		"deletion":{"nodeDrainStartTime":"2026-03-01T14:00:00+02:00","waitForNodeVolumeDetachStartTime":"2026-03-01T13:00:00Z"},
		"deprecated":{"v1beta1":{"failureReason":"FR","failureMessage":"FM"}},
		"initialization":{"bootstrapDataSecretCreated":true,"infrastructureProvisioned":false},
		"addresses":[{"type":"Hostname","address":"h"}],"nodeInfo":{"kubeletVersion":"v1.36.3"},
		"conditions":[{"type":"Ready","status":"False","reason":"R","message":"m","observedGeneration":6,"lastTransitionTime":"2026-03-01T12:00:00Z"},
			{"type":"Available","status":"Unknown","reason":"A","lastTransitionTime":"2026-03-01T12:00:00Z","x":"kept"}]
	}
}`

func fullState() contract.MachineState {
	yes := true
	return contract.MachineState{
		Metadata: contract.Metadata{
			Key: types.NamespacedName{Namespace: "default", Name: "worker-1"}, UID: "u-1", ResourceVersion: "42", Generation: 7,
			Created: noon, Deleting: noon.Add(time.Hour),
			Labels:      map[string]string{"cluster.x-k8s.io/cluster-name": "c1", "x": "y"},
			Annotations: map[string]string{"machinist.dev/node-uid": "n-uid", "other": "kept"},
			Finalizers:  []string{"machine.cluster.x-k8s.io"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "s", UID: "s-uid", Controller: &yes},
			},
		},
		MachineSpec: contract.MachineSpec{
			ClusterName:         "c1",
			Bootstrap:           contract.Ref{Group: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "b1"},
			Infrastructure:      contract.Ref{Group: "infrastructure.cluster.x-k8s.io", Kind: "AWSMachine", Name: "i1"},
			DataSecretName:      contract.Some(""),
			ProviderID:          "p://1",
			Version:             "v1.36.3",
			WantedFailureDomain: "wanted",
			NodeDrainTimeout:    contract.Some(time.Duration(0)), NodeDeletionTimeout: contract.Some(10 * time.Second),
			NodeVolumeDetachTimeout: contract.Some(5 * time.Second), MinReady: contract.Some(30 * time.Second),
			ReadinessGates: []contract.ReadinessGate{{ConditionType: "Synced"}, {ConditionType: "Broken", Negative: true}},
			Taints:         []contract.Taint{{Key: "k", Value: "v", Effect: "NoSchedule", Propagation: "Always"}},
		},
		Phase: "Deleting", Node: contract.NodeRef{Name: "n1", UID: "n-uid"},
		BootstrapReady: contract.Some(true), InfrastructureReady: contract.Some(false),
		Addresses: []contract.Address{{Type: "Hostname", Address: "h"}}, FailureDomain: "a",
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: "False", Reason: "R", Message: "m", ObservedGeneration: 6, LastTransitionTime: metav1.NewTime(noon)},
			{Type: "Available", Status: "Unknown", Reason: "A", LastTransitionTime: metav1.NewTime(noon)},
		},
		ObservedGeneration: 6, LastUpdated: noon,
		DrainStarted: noon, VolumeDetachStarted: noon.Add(time.Hour),
		FailureReason: "FR", FailureMessage: "FM", CertificatesExpire: noon.Add(24 * time.Hour),
	}
}

type machineCase = setCase[contract.MachineState, contract.MachineUpdate]

func machineCases() []machineCase {
	const deletion, failure = "status.deletion.", "status.deprecated.v1beta1.failure"
	unsaid := []string{"Provider", "NodeLabels", "NodeAnnotations"}
	writes := []string{"spec.providerID", "spec.bootstrap.dataSecretName", "spec.failureDomain", "status.phase", "status.nodeRef.name",
		"status.addresses", "status.observedGeneration", "status.lastUpdated", "status.certificatesExpiryDate", "status.conditions",
		deletion + "nodeDrainStartTime", deletion + "waitForNodeVolumeDetachStartTime"}
	return append([]machineCase{
		{
			layout: contract.LayoutsOf(contract.V1Beta1).Machine, kind: "machines", version: "v1beta1", full: fullMachineV1Beta1,
			state: fullStateV1Beta1(), unsaid: append(slices.Clone(unsaid), "MinReady"), update: fullUpdate(),
			writeOnly: []string{"Bootstrap.Namespace", "Infrastructure.Namespace", "NodeKind", "NodeAPIVersion"},
			apply: func(s *contract.MachineState) {
				applyUpdate(s)
				delete(s.Annotations, contract.NodeUIDAnnotation)
				s.FailureDomain = s.WantedFailureDomain // one field has both
			},
			writes: append(slices.Clone(writes), "status.nodeRef.uid", "status.failureReason", "status.failureMessage", "status.bootstrapReady",
				"status.infrastructureReady", "status.v1beta2.conditions"),
		},
		{
			layout: contract.LayoutsOf(contract.V1Beta2).Machine, kind: "machines", version: "v1beta2", full: fullMachine,
			state: fullState(), unsaid: unsaid, update: fullUpdate(), apply: applyUpdate,
			writes: append(slices.Clone(writes), "status.failureDomain", failure+"Reason", failure+"Message",
				"status.initialization.bootstrapDataSecretCreated", "status.initialization.infrastructureProvisioned"),
		},
	}, foreignMachineCases()...)
}

func TestMachine_IsReadAndWrittenInEveryShape(t *testing.T) {
	for _, c := range machineCases() {
		c.check(t)
	}
}

func FuzzMachineReadAndWrite(f *testing.F) { fuzzSet(f, machineCases()) }

func TestMachine_AdapterRefusesWhatItCannotTranslate(t *testing.T) {
	typed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	const want = "ns/m: object of another Go type: want *unstructured.Unstructured, got *v1.PartialObjectMetadata"
	require.EqualError(t, machineKind().Adapter.Read(typed, &contract.MachineState{}), want)
	require.EqualError(t, machineKind().Adapter.Write(typed, contract.MachineUpdate{}), want)

	empty := contract.Unstructured(machineGVK, (*contract.MachineLayout)(nil))
	require.Nil(t, empty.Adapter, "which reconcilers refuse")
}

func TestUnstructured_MakesEmptyObjectsOfTheKind(t *testing.T) {
	kind := machineKind()
	require.Equal(t, machineGVK, kind.New().GetObjectKind().GroupVersionKind())
	require.Equal(t, "MachineList", kind.NewList().GetObjectKind().GroupVersionKind().Kind)
	require.NotSame(t, kind.New(), kind.New())
	require.True(t, kind.StatusSubresource)
}

func TestRef_TheZeroRefIsNone(t *testing.T) {
	require.True(t, contract.Ref{}.IsZero())
	require.False(t, contract.Ref{Kind: "K"}.IsZero())
	require.Equal(t, schema.GroupKind{Group: "g", Kind: "K"}, contract.Ref{Group: "g", Kind: "K", Name: "n"}.GroupKind())
}

// A layout of an embedder whose CRD has hardly any field.
func TestMachineLayout_WithoutPlacesReadsAsAbsentAndDropsWrites(t *testing.T) {
	kind := contract.Unstructured(machineGVK, &contract.MachineLayout{Phase: contract.At[string]("phase")})
	obj := &unstructured.Unstructured{}
	require.NoError(t, kind.Adapter.Write(obj, fullUpdate()))
	require.Equal(t, "Running", obj.Object["phase"])
	var state contract.MachineState
	require.NoError(t, kind.Adapter.Read(obj, &state))
	require.Equal(t, "Running", state.Phase)
	require.Empty(t, state.ProviderID)
	require.Empty(t, state.Conditions)
}
