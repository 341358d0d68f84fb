package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Who replaces a broken Machine of an outdated set: the rollout, its set by itself, or its set together with the current one.
func TestWhoReplacesABrokenOutdatedMachine(t *testing.T) {
	const (
		rollsOut, alone = `{"outdated":true}`, `{}`
		together        = `{"elsewhere":true}`
		nobody          = "{}, creates nothing"
	)
	// Of each strategy: while it runs, while it is paused, frozen, and cannot create.
	tests := map[rollout.Type][4]string{
		rollout.RollingUpdate: {rollsOut, alone, alone, alone},
		rollout.Recreate:      {rollsOut, alone, nobody, alone},
		rollout.OnDelete:      {together, alone, nobody, alone},
		rollout.InPlaceAuto:   {together, alone, nobody, alone},
		rollout.InPlaceManual: {together, alone, nobody, alone},
	}
	states := []struct {
		name                    string
		paused, frozen, blocked bool
	}{
		{name: "it runs"}, {name: "paused", paused: true}, {name: "frozen", frozen: true}, {name: "blocked", blocked: true},
	}
	for strategy, want := range tests {
		for i, is := range states {
			for _, current := range []types.UID{"new", ""} {
				if current == "" && is.blocked {
					continue
				}
				t.Run(string(strategy)+", "+is.name+", current "+string(current), func(t *testing.T) {
					state := &contract.MachineSetState{}
					state.UID, state.Replicas = "old", contract.Some[int32](3)
					old := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
					s := &Scope{facts: rollout.Facts{Strategy: rollout.Strategy{Type: strategy}}, observed: []*set{old}}
					s.State.RolloutPaused, s.facts.Paused = is.paused, is.paused || is.frozen
					s.plan.Stands, s.plan.Current.UID = is.blocked || s.facts.Paused, current
					got := s.limits("old").String()
					limits, err := scale.LimitsOf(&contract.Metadata{Annotations: map[string]string{scale.LimitsAnnotation: got}}, true)
					require.NoError(t, err)
					require.Equal(t, limits, s.limits("old"))
					if s.keepsFromCreating(old) && got == alone {
						got = nobody
					}
					require.Equal(t, want[i], got)
					require.Equal(t, got == together || got == nobody || strategy == rollout.Recreate && got == rollsOut, s.keepsFromCreating(old))
				})
			}
		}
	}
}
