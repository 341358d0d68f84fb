package contract_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

const provisionedMachine = `{
	"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"TestMachine","metadata":{"namespace":"default","name":"m1"},
	"spec":{"providerID":"test://region/1","count":70000,"annotated":true},
	"status":{
		"initialization":{"provisioned":true},"ready":true,"failureDomain":"a","big":5000000000,
		"addresses":[{"type":"InternalIP","address":"10.0.0.1"},{"type":"Hostname","address":"m1"}],
		"conditions":[{"type":"Paused","status":"False","reason":"NotPaused"},
			{"type":"Ready","status":"True","reason":"Up","message":"m","observedGeneration":300,"lastTransitionTime":"2026-03-01T12:00:00Z"}]
	}
}`

func allocations(t *testing.T, name string, want float64, run func()) {
	t.Helper()
	require.Equal(t, want, testing.AllocsPerRun(100, run), "allocations of %s", name)
}

func fieldAllocatesNothing[T scalarValue](t *testing.T, obj map[string]any, hit contract.Field[T], misses ...contract.Field[T]) {
	t.Helper()
	_, found, err := hit.Get(obj)
	require.NoError(t, err)
	require.True(t, found, "%s is meant to be there", hit.Path())
	var sink T
	allocations(t, hit.Path().String(), 0, func() { sink, _, _ = hit.Get(obj) })
	for _, miss := range misses {
		_, found, err := miss.Get(obj)
		require.NoError(t, err)
		require.False(t, found, "%s is not meant to be there", miss.Path())
		allocations(t, miss.Path().String(), 0, func() { sink, _, _ = miss.Get(obj) })
	}
	_ = sink
}

func TestField_GetAllocatesNothing(t *testing.T) {
	obj := parseJSON(t, provisionedMachine)
	obj["metadata"].(map[string]any)["annotations"] = map[string]any{"text": "t", "flag": "true", "small": "70000", "big": "5000000000"}
	fieldAllocatesNothing(t, obj, contract.At[string]("spec", "providerID"), contract.At[string]("spec", "x"), contract.At[string]("x", "y"),
		contract.Field[string]{})
	fieldAllocatesNothing(t, obj, contract.At[bool]("status", "initialization", "provisioned"),
		contract.At[bool]("status", "x", "provisioned"))
	fieldAllocatesNothing(t, obj, contract.At[int32]("spec", "count"), contract.At[int32]("spec", "x"))
	fieldAllocatesNothing(t, obj, contract.At[int64]("status", "big"), contract.At[int64]("status", "x"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[string]("text"), contract.AtAnnotation[string]("x"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[bool]("flag"), contract.AtAnnotation[bool]("x"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[int32]("small"), contract.AtAnnotation[int32]("x"))
	fieldAllocatesNothing(t, obj, contract.AtAnnotation[int64]("big"), contract.AtAnnotation[int64]("x"))
}

func TestConditions_FindAllocatesNothing(t *testing.T) {
	obj := parseJSON(t, provisionedMachine)
	f := contract.ConditionsAt("status", "conditions")
	for _, kind := range []string{"Ready", "Paused", "Absent"} {
		allocations(t, "finding "+kind, 0, func() { _, _, _ = f.Find(obj, kind) })
	}
}

func TestProviderObjects_ReadIntoAReusedStateAllocateNothing(t *testing.T) {
	obj := parseObject(t, provisionedMachine)
	var infrastructure contract.InfraMachineState
	var bootstrap contract.BootstrapConfigState
	for _, v := range contract.Versions() {
		require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(obj, &infrastructure), "the first read makes room for the addresses")
		allocations(t, "reading an InfraMachine of "+string(v), 0, func() { _ = contract.LayoutsOf(v).InfraMachine.Read(obj, &infrastructure) })
		allocations(t, "reading a BootstrapConfig of "+string(v), 0, func() { _ = contract.LayoutsOf(v).BootstrapConfig.Read(obj, &bootstrap) })
	}
	require.Len(t, infrastructure.Addresses, 2)
}

// A Machine is read on every pass, and usually says what it said before.
func TestMachine_ReadingAnUnchangedOneIntoAReusedStateAllocatesNothing(t *testing.T) {
	for version, c := range map[string]struct {
		layout *contract.MachineLayout
		text   string
	}{"v1beta1": {contract.LayoutsOf(contract.V1Beta1).Machine, fullMachine},
		"v1beta2": {contract.LayoutsOf(contract.V1Beta2).Machine, fullMachine}} {
		obj := parseObject(t, c.text)
		if version == "v1beta1" {
			without(obj.Object, []string{"spec", "deletion"}, nil)
		}
		adapter := contract.Unstructured(machineGVK, c.layout).Adapter
		var state contract.MachineState
		require.NoError(t, adapter.Read(obj, &state))
		allocations(t, "reading a Machine again, "+version, 0, func() { _ = adapter.Read(obj, &state) })

		require.NoError(t, adapter.Write(obj, contract.MachineUpdate{Phase: contract.SetTo("Running"), ProviderID: contract.SetTo("p://9")}))
		allocations(t, "reading a Machine whose conditions are unchanged, "+version, 0, func() { _ = adapter.Read(obj, &state) })
		require.Equal(t, "Running", state.Phase)
	}
}

// What a state handed out must not change for its holder when the state is used again.
func TestMachine_ReadingAnotherMachineChangesNothingThatWasHandedOut(t *testing.T) {
	var state contract.MachineState
	require.NoError(t, machineKind().Adapter.Read(parseObject(t, fullMachine), &state))
	handedOut, want := state, fullState()
	other := parseObject(t, `{"metadata":{"name":"m","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["z"],
		"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"u"}]},
		"spec":{"taints":[{"key":"a","effect":"NoExecute"}],"readinessGates":[{"conditionType":"X"}]},
		"status":{"addresses":[{"type":"Hostname","address":"other"}],"conditions":[{"type":"Other","status":"True","reason":"R"}]}}`)
	require.NoError(t, machineKind().Adapter.Read(other, &state))
	if diff := diffStates(want, handedOut); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConditions_OfAnUpdateAreOneAllocation(t *testing.T) {
	var have, want []metav1.Condition
	for _, kind := range []string{"Available", "Deleting", "InfrastructureReady", "NodeReady", "Paused", "Ready", "Updating"} {
		have = append(have, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "A"})
		want = append(want, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "B"})
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	allocations(t, "unchanged conditions", 0, func() { _ = contract.ChangedConditions(have, have, 0, time.Time{}) })
	allocations(t, "changed conditions", 1, func() { _ = contract.ChangedConditions(have, want, 0, now) })
	allocations(t, "updated conditions", 1, func() { _ = contract.UpdatedConditions(have, want, nil) })
	allocations(t, "new conditions", 1, func() { _ = contract.UpdatedConditions(nil, want, nil) })
}
