package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

func TestStrategyOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind, orchestration string
		want                rollout.Type
		says                string
	}{
		"the default":                        {want: rollout.RollingUpdate},
		"Recreate":                           {kind: "Recreate", want: rollout.Recreate},
		"in place, by itself":                {kind: "InPlaceUpdate", want: rollout.InPlaceAuto},
		"in place, by labels":                {kind: "InPlaceUpdate", orchestration: "Manual", want: rollout.InPlaceManual},
		"what a plan calls it is no type":    {kind: "InPlaceAuto", says: `rollout type "InPlaceAuto"`},
		"an orchestration that nobody knows": {kind: "InPlaceUpdate", orchestration: "Sometimes", says: "or InPlaceUpdate with Auto or Manual"},
	} {
		d := &contract.MachineDeploymentState{}
		d.RolloutType, d.InPlaceOrchestration = tc.kind, tc.orchestration
		got, err := strategyOf(d)
		if tc.says != "" {
			require.ErrorContains(t, err, tc.says, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got.Type, name)
	}
}

// A kind may have no number of updated Machines: then the current set says how many there are.
func TestCommandsCountUpdatedMachinesOfAKindWithoutTheirNumber(t *testing.T) {
	t.Parallel()
	state := &contract.MachineSetState{}
	state.UID, state.Replicas = "current", contract.Some[int32](3)
	d := &contract.MachineDeploymentState{}
	d.Replicas, d.ObservedReplicas = contract.Some[int32](3), contract.Some[int32](3)
	current := &set{Child: children.Child[contract.MachineSetState]{State: state, Metadata: &state.Metadata}}
	got, begun := Commands{}.counts(d, []*set{current})
	require.True(t, begun)
	require.Equal(t, Progress{Desired: 3, Replicas: 3, Updated: 3}, got)
}
