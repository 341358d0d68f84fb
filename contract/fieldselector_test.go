package contract_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

func TestSelector_NoneIsNotTheEmptyOne(t *testing.T) {
	for text, want := range map[string]*metav1.LabelSelector{
		`{}`:                         nil,
		`{"spec":null}`:              nil,
		`{"spec":{"selector":null}}`: nil,
		`{"spec":{"selector":{}}}`:   {},
		`{"spec":{"selector":` + selectorText + `}}`: setSelector(),
		`{"spec":{"selector":{"matchLabels":null}}}`: {},
	} {
		f := contract.At[*metav1.LabelSelector]("spec", "selector")
		got, _, err := f.Get(parseJSON(t, text))
		require.NoError(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	got, _, err := contract.Field[*metav1.LabelSelector]{}.Get(parseJSON(t, `{"spec":{"selector":{}}}`))
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestSelector_Incomplete(t *testing.T) {
	for selector, want := range map[string]string{
		`{"matchExpressions":[{}]}`:          "spec.selector.matchExpressions.0.key: want string, found nothing",
		`{"matchExpressions":[{"key":"k"}]}`: "spec.selector.matchExpressions.0.operator: want string, found nothing",
	} {
		obj := parseObject(t, `{"spec":{"selector":`+selector+`}}`)
		_, _, err := contract.At[*metav1.LabelSelector]("spec", "selector").Get(obj.Object)
		require.ErrorIs(t, err, contract.ErrWrongType)
		require.EqualError(t, err, want)

		// Nor may a state that held a selector before keep it.
		state := contract.MachineSetState{ReplicatedState: contract.ReplicatedState{Selector: &metav1.LabelSelector{}}}
		err = contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).MachineSet).Adapter.Read(obj, &state)
		require.ErrorContains(t, err, want)
	}
}

// The state keeps the selector it has while the object says the same, so every difference must be seen.
func TestSelector_EveryChangeIsRead(t *testing.T) {
	adapter := contract.Unstructured(machineGVK, contract.LayoutsOf(contract.V1Beta2).MachineSet).Adapter
	var state contract.MachineSetState
	for _, selector := range []string{
		selectorText, `{"matchLabels":{"a":"c"}}`, `{"matchLabels":{"b":"c"}}`, `{"matchLabels":{"b":"c","d":"e"}}`, `{}`,
		`{"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}`, `{"matchExpressions":[{"key":"k","operator":"In","values":["w"]}]}`,
		`{"matchExpressions":[{"key":"k","operator":"NotIn","values":["w"]}]}`,
		`{"matchExpressions":[{"key":"l","operator":"NotIn","values":["w"]}]}`,
		`{"matchExpressions":[{"key":"l","operator":"Exists"}]}`,
		`{"matchExpressions":[{"key":"l","operator":"Exists"},{"key":"m","operator":"Exists"}]}`,
	} {
		obj := parseObject(t, `{"spec":{"selector":`+selector+`}}`)
		want, _, err := contract.At[*metav1.LabelSelector]("spec", "selector").Get(obj.Object)
		require.NoError(t, err)
		require.NoError(t, adapter.Read(obj, &state))
		requireStates(t, want, state.Selector)
		kept := state.Selector
		require.NoError(t, adapter.Read(obj, &state))
		require.Same(t, kept, state.Selector, "the same is kept")
	}
}
