package contract_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func infraMachineKind(v contract.Version) contract.InfraMachineKind {
	gvk := schema.GroupVersionKind{Group: "infrastructure.example.com", Version: "v1", Kind: "CloudMachine"}
	return contract.Unstructured(gvk, contract.LayoutsOf(v).ProvidedMachine)
}

// A provider writes where a Machine reads, in every version of the contract.
func TestWhatAProviderWritesIsWhatAMachineReads(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ready := metav1.Condition{Type: contract.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: at}
	update := contract.ProvidedMachineUpdate{
		ProviderID: contract.SetTo("x://1"), Resume: contract.SetTo(json.RawMessage(`{"job":1}`)), Provisioned: contract.SetTo(true),
		Addresses: contract.SetTo([]contract.Address{{Type: "InternalIP", Address: "10.0.0.1"}}), FailureDomain: contract.SetTo("z1"),
		FailureReason: contract.SetTo("Lost"), FailureMessage: contract.SetTo("gone"), Conditions: []metav1.Condition{ready},
	}
	for _, v := range contractVersions() {
		kind := infraMachineKind(v)
		obj, _ := kind.New().(*unstructured.Unstructured)
		obj.Object["spec"] = map[string]any{"size": "small"}
		obj.SetLabels(map[string]string{contract.ClusterNameLabel: "c1"})
		require.NoError(t, kind.Adapter.Write(obj, update))

		var read contract.InfraMachineState
		require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(obj, &read))
		want := contract.InfraMachineState{
			Provisioned: true, ProviderID: "x://1", Addresses: []contract.Address{{Type: "InternalIP", Address: "10.0.0.1"}}, HasAddresses: true,
			FailureDomain: contract.Some("z1"), Ready: contract.Some(ready),
		}
		if v != contract.V1Beta2 {
			want.FailureReason, want.FailureMessage = "Lost", "gone"
			want.FailureDomainFallback = want.FailureDomain
		}
		require.Empty(t, cmp.Diff(want, read, cmp.AllowUnexported(contract.Opt[string]{}, contract.Opt[metav1.Condition]{})), v)

		var own contract.ProvidedMachineState
		require.NoError(t, kind.Adapter.Read(obj, &own))
		require.Equal(t, "c1", own.ClusterName)
		require.JSONEq(t, `{"job":1}`, string(own.Resume))
		require.Contains(t, string(own.Spec), `"size":"small"`)
		require.Equal(t, []metav1.Condition{ready}, own.Conditions)
		require.Equal(t, "z1", own.FailureDomain)

		cleared := contract.ProvidedMachineUpdate{Resume: contract.SetTo(json.RawMessage(nil))}
		require.NoError(t, kind.Adapter.Write(obj, cleared))
		require.NoError(t, kind.Adapter.Read(obj, &own))
		require.Nil(t, own.Resume)
	}
	require.Nil(t, contract.LayoutsOf("v9").ProvidedMachine)
	require.Nil(t, infraMachineKind("v9").Adapter)
}

func TestAKindOfInfraMachineThatForgetsIsFound(t *testing.T) {
	names := func(kind contract.InfraMachineKind) []string {
		forgotten, err := contract.CheckKind(kind)
		require.NoError(t, err)
		var all []string
		for _, f := range forgotten {
			if f.Member != "ObservedGeneration" { // the contract has no place for it
				all = append(all, f.Member)
			}
		}
		return all
	}
	require.Empty(t, names(infraMachineKind(contract.V1Beta2)))
	require.Empty(t, names(infraMachineKind(contract.V1Beta1)))
	bare := contract.Unstructured(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}, &contract.ProvidedMachineLayout{})
	require.Equal(t, []string{"Conditions", "ProviderID", "Resume", "Provisioned"}, names(bare))
}
