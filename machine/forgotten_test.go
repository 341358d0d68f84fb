package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
)

// runningOf returns a running Machine of a Go type that has no place for everything, which shows in its deletion: what New sees is another.
func runningOf(t *testing.T, forget func(*contract.MachineState)) (*world, contract.Kind, *unstructured.Unstructured) {
	t.Helper()
	kind := serverKind(true)
	kind.Adapter = forgetful{kind.Adapter, func(s *contract.MachineState) {
		if s.Key.Name == "m1" && !s.Deleting.IsZero() {
			forget(s)
		}
	}}
	w, m := serverWorld(t, kind, nil)
	w.says(kind, m, machine.ConditionReady, machine.ReasonReady)
	return w, kind, m
}

// Otherwise each pass would begin with what it has to store, and the deletion would hang without a word.
func TestAKindThatForgetsWhatIsStoredBeforeANodeIsTouchedIsTold(t *testing.T) {
	t.Parallel()
	noStart, noUID := func(s *contract.MachineState) { s.DrainStarted = time.Time{} }, func(s *contract.MachineState) { s.Node.UID = "" }
	for name, tc := range map[string]struct {
		forget      func(*contract.MachineState)
		annotations map[string]string
		says        string
	}{
		"the start of a drain":              {noStart, nil, "when a drain began"},
		"the UID":                           {noUID, nil, "the UID of its Node"},
		"the UID, and nothing to drain for": {noUID, map[string]string{contract.ExcludeDrain: ""}, "the UID of its Node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, kind, m := runningOf(t, tc.forget)
			w.change(m, func(m *unstructured.Unstructured) { m.SetAnnotations(tc.annotations) })
			require.NoError(t, w.client.Delete(t.Context(), m))
			state := w.says(kind, m, machine.ConditionDeleting, machine.ReasonInternalError)
			for _, c := range state.Conditions {
				if c.Type == machine.ConditionDeleting {
					require.Contains(t, c.Message, "Server default/m1 does not keep "+tc.says)
				}
			}
			require.False(t, w.node("m1").Spec.Unschedulable)
		})
	}
}

// The machine would go undrained while its Node and its pods stay.
func TestAMachineThatHasLostItsProviderIDWaitsForItOrForSomebodyToExcludeTheDrain(t *testing.T) {
	t.Parallel()
	w, _, m := runningOf(t, func(s *contract.MachineState) { s.ProviderID = "" })
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, machine.ConditionDeleting, machine.ReasonDrainingNode, "Node m1 is recorded, and the Machine has no provider ID",
		contract.ExcludeDrain)
	require.False(t, w.node("m1").Spec.Unschedulable)
	w.annotate(m, map[string]any{contract.ExcludeDrain: ""})
	w.goes(m)
}
