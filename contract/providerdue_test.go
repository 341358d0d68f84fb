package contract_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// undue are values that a provider may write before it owes one: what Go writes for a nil pointer, and anything else.
func undue() map[string]string {
	return map[string]string{"null": "null", "another type": `{"a":[1]}`}
}

// Cluster API reads the ID only once the machine is provisioned, so that a provider which writes null until then works.
func TestInfraMachine_WhatIsNotDueHoldsNothingUp(t *testing.T) {
	for _, v := range contractVersions() {
		for name, raw := range undue() {
			t.Run(string(v)+"/"+name, func(t *testing.T) {
				obj := parseObject(t, fmt.Sprintf(`{"spec":{"providerID":%[1]s,"failureDomain":%[1]s},
					"status":{"addresses":%[1]s,"failureDomain":%[1]s,"ready":false,"initialization":{"provisioned":false},"interruptible":true}}`, raw))
				state := contract.InfraMachineState{ProviderID: "stale", Addresses: make([]contract.Address, 2), HasAddresses: true,
					FailureDomain: contract.Some("stale")}
				require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(obj, &state))
				require.ErrorIs(t, state.Unreadable, contract.ErrWrongType)
				require.ErrorContains(t, state.Unreadable, "spec.providerID: want string, found ")
				require.ErrorContains(t, state.Unreadable, "status.addresses: want list, found ")
				require.ErrorContains(t, state.Unreadable, "failureDomain: want string, found ")
				state.Unreadable = nil
				if diff := diffStates(contract.InfraMachineState{Interruptible: true}, state); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}

				provisioned := parseObject(t, fmt.Sprintf(`{"kind":"K","metadata":{"name":"n"},"spec":{"providerID":%s},
					"status":{"ready":true,"initialization":{"provisioned":true}}}`, raw))
				require.ErrorContains(t, contract.LayoutsOf(v).InfraMachine.Read(provisioned, &state),
					"spec.providerID: want string, found ", "now it is due")
			})
		}
	}
}

// A reader that remembers that the machine was provisioned reads on while the object denies it.
func TestInfraMachine_WhatIsNotDueIsReadAllTheSame(t *testing.T) {
	var state contract.InfraMachineState
	require.NoError(t, contract.LayoutsOf(contract.V1Beta2).InfraMachine.Read(parseObject(t, `{"spec":{"providerID":null,"failureDomain":"a"},
		"status":{"addresses":[{"type":"Hostname","address":"h"}]}}`), &state))
	require.Equal(t, []contract.Address{{Type: "Hostname", Address: "h"}}, state.Addresses,
		"one value that cannot be read is no reason to drop the others")
	require.Equal(t, contract.Some("a"), state.FailureDomain)
	require.EqualError(t, state.Unreadable, "spec.providerID: want string, found null")

	require.NoError(t, contract.LayoutsOf(contract.V1Beta2).InfraMachine.Read(parseObject(t, `{"spec":{"providerID":"p://1"}}`), &state))
	require.Equal(t, "p://1", state.ProviderID)
	require.NoError(t, state.Unreadable)
}

func TestBootstrapConfig_WhatIsNotDueHoldsNothingUp(t *testing.T) {
	for _, v := range contractVersions() {
		for name, raw := range undue() {
			t.Run(string(v)+"/"+name, func(t *testing.T) {
				state := contract.BootstrapConfigState{DataSecretName: contract.Some("stale")}
				require.NoError(t, contract.LayoutsOf(v).BootstrapConfig.Read(parseObject(t, `{"status":{"dataSecretName":`+raw+`}}`), &state))
				require.ErrorContains(t, state.Unreadable, "status.dataSecretName: want string, found ")
				require.False(t, state.DataSecretName.Found())

				created := parseObject(t, `{"kind":"K","metadata":{"name":"n"},
					"status":{"ready":true,"initialization":{"dataSecretCreated":true},"dataSecretName":`+raw+`}}`)
				require.ErrorContains(t, contract.LayoutsOf(v).BootstrapConfig.Read(created, &state), "status.dataSecretName: want string, found ",
					"now it is due")
			})
		}
	}
}
