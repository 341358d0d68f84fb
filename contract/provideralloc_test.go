package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// everythingProvisioned says what an InfraMachine, a BootstrapConfig and a ControlPlane of every version may say.
const everythingProvisioned = `{
	"kind":"TestMachine","metadata":{"namespace":"default","name":"m1","annotations":{
		"cluster.x-k8s.io/paused":"","machine.cluster.x-k8s.io/certificates-expiry":"2027-03-01T12:00:00Z"}},
	"spec":{"providerID":"test://region/1","failureDomain":"b","version":"v1.36.3","replicas":3},
	"status":{
		"ready":true,"initialized":true,"initialization":{"provisioned":true,"dataSecretCreated":true,"controlPlaneInitialized":true},
		"dataSecretName":"s","failureDomain":"a","interruptible":true,"failureReason":"R","failureMessage":"M",
		"externalManagedControlPlane":true,"version":"v1.36.3","replicas":3,
		"addresses":[{"type":"InternalIP","address":"10.0.0.1"},{"type":"Hostname","address":"m1"}],
		"conditions":[{"type":"Available","status":"True","reason":"Up","lastTransitionTime":"2026-03-01T12:00:00Z"},
			{"type":"Ready","status":"True","reason":"Up","message":"m","observedGeneration":300,"lastTransitionTime":"2026-03-01T12:00:00Z"}]
	}
}`

// readAgain reads once to make room, and measures the reads that follow.
func readAgain(t *testing.T, what string, v contract.Version, read func() error) {
	t.Helper()
	require.NoError(t, read(), "%s of %s", what, v)
	allocations(t, "reading "+what+" of "+string(v), 0, func() { _ = read() })
}

func TestProviderObjects_OfEveryRoleAndVersionAreReadAgainWithoutAllocations(t *testing.T) {
	machine, pool := parseObject(t, everythingProvisioned), parseObject(t, fullPool)
	var (
		infraMachine    contract.InfraMachineState
		bootstrapConfig contract.BootstrapConfigState
		machinePool     contract.InfraMachinePoolState
		controlPlane    contract.ControlPlaneState
	)
	for _, v := range contractVersions() {
		readAgain(t, "an InfraMachine", v, func() error { return contract.LayoutsOf(v).InfraMachine.Read(machine, &infraMachine) })
		readAgain(t, "a BootstrapConfig", v, func() error { return contract.LayoutsOf(v).BootstrapConfig.Read(machine, &bootstrapConfig) })
		readAgain(t, "an InfraMachinePool", v, func() error { return contract.LayoutsOf(v).InfraMachinePool.Read(pool, &machinePool) })
		readAgain(t, "a ControlPlane", v, func() error { return contract.LayoutsOf(v).ControlPlane.Read(machine, &controlPlane) })
		require.Len(t, infraMachine.Addresses, 2)
		require.True(t, infraMachine.Provisioned && infraMachine.Interruptible && infraMachine.Ready.Found())
		require.True(t, bootstrapConfig.DataSecretName.Found())
		require.Len(t, machinePool.ProviderIDList, 3)
		require.True(t, controlPlane.ExternalManagedControlPlane)
	}
}

func TestInfraMachinePool_NothingOfASmallerGroupStays(t *testing.T) {
	layout := contract.LayoutsOf(contract.V1Beta2).InfraMachinePool
	three, two := parseObject(t, fullPool), parseObject(t, fullPool)
	require.NoError(t, unstructured.SetNestedStringSlice(two.Object, []string{"test://4", "test://5"}, "spec", "providerIDList"))
	require.NoError(t, unstructured.SetNestedSlice(two.Object, []any{map[string]any{"instanceName": "four"}}, "status", "instances"))
	var state contract.InfraMachinePoolState
	require.NoError(t, layout.Read(three, &state))
	require.NoError(t, layout.Read(two, &state))
	require.NoError(t, layout.Read(three, &state))
	if diff := diffPools(fullPoolState(), state); diff != "" {
		t.Errorf("nothing of the smaller group stays (-want +got):\n%s", diff)
	}
	require.NoError(t, layout.Read(two, &state))
	require.Equal(t, []string{"test://4", "test://5"}, state.ProviderIDList)
}
