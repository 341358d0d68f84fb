package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// The contract's page names status.initialization.provisioned, Cluster API's controller reads status.ready in every version:
// a provider that follows the page alone never becomes provisioned there.
func TestInfraMachinePool_Provisioned(t *testing.T) {
	const ready, provisioned = `"ready":true`, `"initialization":{"provisioned":true}`
	for _, v := range contractVersions() {
		for status, want := range map[string]bool{
			``:                             false,
			ready:                          true,
			provisioned:                    true,
			ready + "," + provisioned:      true,
			`"ready":false,` + provisioned: true,
			ready + `,"initialization":{"provisioned":false}`:               true,
			`"ready":false,"initialization":{"provisioned":false}`:          false,
			`"ready":false,"initialization":null`:                           false,
			`"ready":false,"initialization":{"provisioned":false},"x":true`: false,
		} {
			t.Run(string(v)+"/"+status, func(t *testing.T) {
				state := contract.InfraMachinePoolState{Provisioned: !want}
				require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(parseObject(t, `{"status":{`+status+`}}`), &state))
				require.Equal(t, want, state.Provisioned)
			})
		}
	}
}

func TestInfraMachinePool_AFlagOfAnotherTypeIsAnErrorWhenItIsLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		version      contract.Version
		status, want string
	}{
		"the contract's own place": {contract.V1Beta2, `"initialization":{"provisioned":"true"},"ready":true`,
			"status.initialization.provisioned: want bool, found string"},
		"the other place while the own one says no": {contract.V1Beta2, `"initialization":{"provisioned":false},"ready":"3/3"`,
			"status.ready: want bool, found string"},
		"the other place once the own one says yes": {contract.V1Beta2, `"initialization":{"provisioned":true},"ready":"3/3"`, ""},
		"the other place of an older contract": {contract.V1Beta1, `"initialization":"done"`,
			"status.initialization: want object, found string"},
		"the other place of an older contract that is ok": {contract.V1Alpha4, `"ready":true,"initialization":"done"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parseObject(t, `{"kind":"AWSMachinePool","metadata":{"namespace":"default","name":"p"},"status":{`+c.status+`}}`)
			var state contract.InfraMachinePoolState
			err := contract.LayoutsOf(c.version).InfraMachinePool.Read(obj, &state)
			if c.want == "" {
				require.NoError(t, err)
				require.True(t, state.Provisioned)
				return
			}
			require.ErrorIs(t, err, contract.ErrWrongType)
			require.EqualError(t, err, "AWSMachinePool default/p breaks contract "+string(c.version)+": "+c.want)
		})
	}
}

const fullPool = `{
	"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"TestMachinePool",
	"metadata":{"namespace":"default","name":"p1","annotations":{"cluster.x-k8s.io/paused":""}},
	"spec":{"providerID":"test://group/1","providerIDList":["test://1","test://2","test://3"]},
	"status":{
		"ready":true,"initialization":{"provisioned":true},"replicas":3,"infrastructureMachineKind":"TestMachine",
		"failureReason":"CreateError","failureMessage":"no quota",
		"instances":[
			{"instanceName":"one","providerID":"test://1","version":"v1.36.3","ready":true,"zone":"only the provider knows it",
				"addresses":[{"type":"InternalIP","address":"10.0.0.1"},{"type":"Hostname","address":"one"}]},
			{"instanceID":"i-2"}],
		"conditions":[{"type":"Ready","status":"True","reason":"Up","lastTransitionTime":"2026-03-01T12:00:00Z"}]
	}
}`

func fullPoolState() contract.InfraMachinePoolState {
	return contract.InfraMachinePoolState{
		Provisioned: true, ProviderIDList: []string{"test://1", "test://2", "test://3"}, HasProviderIDList: true,
		Replicas: contract.Some[int32](3), InfrastructureMachineKind: "TestMachine",
		// Cluster API dereferences a nil pointer when a pool or its bootstrap configuration reports a failure.
		FailureReason: "CreateError", FailureMessage: "no quota",
		Ready: contract.Some(metav1.Condition{Type: "Ready", Status: "True", Reason: "Up", LastTransitionTime: metav1.NewTime(noon)}),
	}
}

func diffPools(want, got contract.InfraMachinePoolState) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateErrors(), optsOf[int32](), conditionOpt())
}

func conditionOpt() cmp.Option { return optsOf[metav1.Condition]() }

func TestInfraMachinePool_IsReadCompletely(t *testing.T) {
	for _, v := range contractVersions() {
		obj, before := parseObject(t, fullPool), parseObject(t, fullPool)
		state := contract.InfraMachinePoolState{Unreadable: contract.ErrWrongType}
		require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(obj, &state))
		if diff := diffPools(fullPoolState(), state); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v, diff)
		}
		require.Empty(t, cmp.Diff(before.Object, obj.Object), "reading changes nothing")

		require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(parseObject(t, `{}`), &state))
		if diff := diffPools(contract.InfraMachinePoolState{}, state); diff != "" {
			t.Errorf("%s: an empty object says nothing (-want +got):\n%s", v, diff)
		}
	}
}

func TestInfraMachinePool_AnAbsentListIsNotAnEmptyOne(t *testing.T) {
	for spec, want := range map[string]bool{`{}`: false, `{"providerIDList":[]}`: true} {
		state := fullPoolState()
		require.NoError(t, contract.LayoutsOf(contract.V1Beta2).InfraMachinePool.Read(
			parseObject(t, `{"spec":`+spec+`,"status":{"replicas":0}}`), &state))
		require.Equal(t, want, state.HasProviderIDList, spec)
		require.Empty(t, state.ProviderIDList)
		require.Equal(t, contract.Some[int32](0), state.Replicas)
	}
}

func TestInfraMachinePool_WhatIsNotDueHoldsNothingUp(t *testing.T) {
	for _, v := range contractVersions() {
		var state contract.InfraMachinePoolState
		require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(parseObject(t,
			`{"spec":{"providerIDList":null},"status":{"replicas":"three","infrastructureMachineKind":null}}`), &state))
		require.EqualError(t, state.Unreadable, "spec.providerIDList: want list, found null\n"+
			"status.replicas: want 32-bit integer, found string\nstatus.infrastructureMachineKind: want string, found null")
	}
}

func TestInfraMachinePool_Listed(t *testing.T) {
	for _, v := range contractVersions() {
		for object, want := range map[string]bool{
			`{}`:                                    false,
			`{"spec":{"providerIDList":null}}`:      false,
			`{"status":{"replicas":0}}`:             true,
			`{"status":{"replicas":2}}`:             false,
			`{"spec":{"providerIDList":[]}}`:        true,
			`{"spec":{"providerIDList":["p://1"]}}`: true,
			`{"spec":{"providerIDList":[]},"status":{"replicas":0}}`:        true,
			`{"spec":{"providerIDList":[]},"status":{"replicas":2}}`:        false,
			`{"spec":{"providerIDList":["p://1"]},"status":{"replicas":2}}`: true,
			`{"spec":{"providerIDList":null},"status":{"replicas":0}}`:      true,
		} {
			var state contract.InfraMachinePoolState
			require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(parseObject(t, object), &state))
			require.Equal(t, want, state.Listed(), "%s: %s", v, object)
		}
	}
}
