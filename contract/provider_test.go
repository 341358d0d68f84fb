package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

func TestInfraMachine_IsReadWithThePathsOfItsContract(t *testing.T) {
	addresses := []contract.Address{{Type: "InternalIP", Address: "10.0.0.1"}}
	for name, c := range map[string]struct {
		version contract.Version
		object  string
		want    contract.InfraMachineState
	}{
		"an empty v1beta1 object says nothing": {version: contract.V1Beta1, object: `{}`},
		"an empty v1beta2 object says nothing": {version: contract.V1Beta2, object: `{}`},
		"a v1beta1 object": {
			version: contract.V1Beta1,
			object: `{"spec":{"providerID":"p://1","failureDomain":"only read without the other"},"status":{"ready":true,
				"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"failureDomain":"a",
				"initialization":{"provisioned":false},"conditions":[{"type":"Ready","status":"False","severity":"Info","reason":"R"}]}}`,
			want: contract.InfraMachineState{
				Provisioned: true, ProviderID: "p://1", Addresses: addresses, HasAddresses: true, FailureDomain: contract.Some("a"),
				FailureDomainFallback: contract.Some("only read without the other"),
				Ready:                 contract.Some(metav1.Condition{Type: "Ready", Status: "False", Reason: "R"}),
			},
		},
		"a v1beta2 object": {
			version: contract.V1Beta2,
			object: `{"spec":{"providerID":"p://1","failureDomain":"wanted"},"status":{"ready":false,
				"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"failureDomain":"a","initialization":{"provisioned":true}}}`,
			want: contract.InfraMachineState{
				Provisioned: true, ProviderID: "p://1", Addresses: addresses, HasAddresses: true, FailureDomain: contract.Some("a"),
				FailureDomainFallback: contract.Some("wanted"),
			},
		},
		"v1beta2 does not fall back to the old flag": {version: contract.V1Beta2, object: `{"status":{"ready":true}}`},

		"two empty failure domains are one": {
			version: contract.V1Beta2, object: `{"spec":{"failureDomain":""},"status":{"failureDomain":""}}`,
			want: contract.InfraMachineState{FailureDomain: contract.Some(""), FailureDomainFallback: contract.Some("")},
		},
		"a failure, a spot instance and a paused object": {
			version: contract.V1Beta2,
			object: `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}},
				"status":{"failureReason":"CreateError","failureMessage":"no quota","interruptible":true}}`,
			want: contract.InfraMachineState{Interruptible: true, FailureReason: "CreateError", FailureMessage: "no quota"},
		},
		"empty values are values where absent means something else": {
			version: contract.V1Beta2,
			object:  `{"spec":{"providerID":""},"status":{"addresses":[],"failureDomain":"","initialization":{"provisioned":false}}}`,
			want:    contract.InfraMachineState{HasAddresses: true, FailureDomain: contract.Some("")},
		},
		"a Ready condition that cannot be read does not hold up the rest": {
			version: contract.V1Beta2,
			object: `{"spec":{"providerID":"p://1"},"status":{"initialization":{"provisioned":true},
				"conditions":[{"type":"Ready","status":"True","observedGeneration":1.5}]}}`,
			want: contract.InfraMachineState{Provisioned: true, ProviderID: "p://1", Ready: contract.Some(metav1.Condition{
				Type: "Ready", Status: "Unknown", Reason: contract.ReasonInvalidCondition,
				Message: "status.conditions.0.observedGeneration: want integer, found number",
			})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj, before := parseObject(t, c.object), parseObject(t, c.object)
			stale := contract.InfraMachineState{
				Provisioned: true, ProviderID: "stale", Addresses: make([]contract.Address, 3), HasAddresses: true,
				FailureDomain: contract.Some("stale"), Interruptible: true, FailureReason: "stale", FailureMessage: "stale",
				Ready: contract.Some(metav1.Condition{Type: "Stale"}), Unreadable: contract.ErrWrongType,
			}
			require.NoError(t, contract.LayoutsOf(c.version).InfraMachine.Read(obj, &stale))
			if diff := diffStates(c.want, stale); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			require.Empty(t, cmp.Diff(before.Object, obj.Object), "reading changes nothing")
		})
	}
}

func TestBootstrapConfig_IsReadWithThePathsOfItsContract(t *testing.T) {
	for name, c := range map[string]struct {
		version contract.Version
		object  string
		want    contract.BootstrapConfigState
	}{
		"an empty object says nothing": {version: contract.V1Beta1, object: `{}`},
		"a v1beta1 object": {
			version: contract.V1Beta1, object: `{"status":{"ready":true,"dataSecretName":"s","initialization":{"dataSecretCreated":false}}}`,
			want: contract.BootstrapConfigState{DataSecretCreated: true, DataSecretName: contract.Some("s")},
		},
		"a v1beta2 object": {
			version: contract.V1Beta2,
			object: `{"status":{"ready":false,"dataSecretName":"s","initialization":{"dataSecretCreated":true},
				"conditions":[{"type":"Ready","status":"True","reason":""}]}}`,
			want: contract.BootstrapConfigState{
				DataSecretCreated: true, DataSecretName: contract.Some("s"),
				Ready: contract.Some(metav1.Condition{Type: "Ready", Status: "True", Reason: contract.ReasonNotReported}),
			},
		},
		"a failure, certificates that end and a paused object": {
			version: contract.V1Alpha3,
			object: `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":"true","machine.cluster.x-k8s.io/certificates-expiry":"2026-03-01T14:00:00+02:00"}},
				"status":{"failureReason":"CreateError","failureMessage":"no token"}}`,
			want: contract.BootstrapConfigState{FailureReason: "CreateError", FailureMessage: "no token"},
		},
		"an empty name is not an absent one": {
			version: contract.V1Beta2, object: `{"status":{"dataSecretName":""}}`,
			want: contract.BootstrapConfigState{DataSecretName: contract.Some("")},
		},
		"conditions that are no list": {
			version: contract.V1Beta2, object: `{"status":{"conditions":"x"}}`,
			want: contract.BootstrapConfigState{Ready: contract.Some(metav1.Condition{
				Type: "Ready", Status: "Unknown", Reason: contract.ReasonInvalidCondition,
				Message: "status.conditions: want list, found string",
			})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj, before := parseObject(t, c.object), parseObject(t, c.object)
			stale := contract.BootstrapConfigState{
				DataSecretCreated: true, DataSecretName: contract.Some("stale"), Ready: contract.Some(metav1.Condition{Type: "Stale"}),
				FailureReason: "stale", FailureMessage: "stale", Unreadable: contract.ErrWrongType,
			}
			require.NoError(t, contract.LayoutsOf(c.version).BootstrapConfig.Read(obj, &stale))
			if diff := diffStates(c.want, stale); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			require.Empty(t, cmp.Diff(before.Object, obj.Object), "reading changes nothing")
		})
	}
}

func TestLayouts_OfAnUnknownVersionAreAnErrorAndNoPanic(t *testing.T) {
	obj := parseObject(t, `{"kind":"K","metadata":{"name":"n","namespace":"ns"}}`)
	for _, err := range []error{
		contract.LayoutsOf("v9").InfraMachine.Read(obj, &contract.InfraMachineState{}),
		contract.LayoutsOf("").BootstrapConfig.Read(obj, &contract.BootstrapConfigState{}),
		contract.LayoutsOf("v1").InfraMachinePool.Read(obj, &contract.InfraMachinePoolState{}),
		contract.LayoutsOf("V1BETA2").ControlPlane.Read(obj, &contract.ControlPlaneState{}),
		contract.LayoutsOf(contract.V1Alpha4).Cluster.Read(obj, &contract.ClusterState{}),
	} {
		require.ErrorIs(t, err, contract.ErrUnknownVersion)
		require.EqualError(t, err, "K ns/n: unknown contract version")
	}
}

// Where the machine really is, Cluster API takes for the status of a Machine from status alone, in every version.
func TestInfraMachine_FailureDomain(t *testing.T) {
	for _, v := range contractVersions() {
		for object, want := range map[string]string{
			`{"spec":{"failureDomain":"wanted"},"status":{"failureDomain":"real"}}`: "real",
			`{"status":{"failureDomain":"real"}}`:                                   "real",
			`{"spec":{"failureDomain":"wanted"},"status":{"failureDomain":""}}`:     "wanted",
			`{"spec":{"failureDomain":"wanted"}}`:                                   "wanted",
			`{}`:                                                                    "(not said)",
		} {
			var state contract.InfraMachineState
			require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(parseObject(t, object), &state))
			require.Equal(t, want, state.FailureDomain.Or("(not said)"), "%s: %s", v, object)
		}
	}
}
