package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// updateInPlace carries a decision out on two sets, with an update hook that always succeeds. A user selects one candidate at a time.
func updateInPlace(sets []rollout.Set, d rollout.Decision, manual bool) {
	byUID := map[types.UID]*rollout.Set{"ms1": &sets[0], "ms2": &sets[1]}
	for i := range sets[0].Machines {
		m := &sets[0].Machines[i]
		if m.InPlace == rollout.Selected {
			m.InPlace = rollout.Updated
		} else if manual && m.InPlace == rollout.Candidate {
			m.InPlace, manual = rollout.Selected, false
		}
	}
	for _, c := range d.Replicas {
		s := byUID[c.UID]
		s.Replicas = c.To
		for i := range s.Machines {
			if s.Machines[i].InPlace == rollout.Moved {
				s.Machines[i].InPlace = rollout.Received
			}
		}
		for _, v := range c.Victims {
			s.Machines = slices.DeleteFunc(s.Machines, func(m rollout.Machine) bool { return m.UID == v.UID })
		}
		for s == &sets[1] && len(s.Machines) < s.Replicas {
			uid := types.UID(fmt.Sprintf("new%d", len(s.Machines)))
			s.Machines = append(s.Machines, rollout.Machine{Machine: scale.Machine{Name: string(uid), UID: uid, Available: true, Ready: true}})
		}
	}
	for uid, to := range d.InPlace {
		s, i := ownerOf(sets, uid)
		s.Machines[i].InPlace, s.Machines[i].InPlaceSet = to, d.Current.Name
		if to == rollout.Moved {
			sets[1].Machines = append(sets[1].Machines, s.Machines[i])
			s.Machines = slices.Delete(s.Machines, i, i+1)
		}
	}
}

// ownerOf returns the set of a Machine, and the place of the Machine in it.
func ownerOf(sets []rollout.Set, uid types.UID) (*rollout.Set, int) {
	for i := range sets {
		if at := slices.IndexFunc(sets[i].Machines, func(m rollout.Machine) bool { return m.UID == uid }); at >= 0 {
			return &sets[i], at
		}
	}
	return nil, -1
}

func TestMachinesAreUpdatedInPlace(t *testing.T) {
	tests := map[string]struct {
		strategy rollout.Strategy
		kept     int
	}{
		"one at a time":       {rollout.Strategy{Type: rollout.InPlaceAuto, MaxUnavailable: 1}, 4},
		"two at a time":       {rollout.Strategy{Type: rollout.InPlaceAuto, MaxUnavailable: 2}, 4},
		"with a surge of one": {rollout.Strategy{Type: rollout.InPlaceAuto, MaxSurge: 1}, 3},
		"as a user selects":   {rollout.Strategy{Type: rollout.InPlaceManual, MaxUnavailable: 1}, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sets := []rollout.Set{{Name: "ms1", UID: "ms1", Replicas: 4}, {Name: "ms2", UID: "ms2", Matches: true, Created: time.Unix(1, 0)}}
			for i := range 4 {
				uid := types.UID(fmt.Sprintf("old%d", i))
				m := rollout.Machine{Machine: scale.Machine{Name: string(uid), UID: uid, Available: true, Ready: true}}
				sets[0].Machines = append(sets[0].Machines, m)
			}
			for range 40 {
				f := rollout.Facts{Desired: contract.Some(4), Strategy: test.strategy, Sets: sets}
				d := rollout.Plan(f)
				require.Empty(t, broken(f, d))
				if d.Complete {
					break
				}
				updateInPlace(sets, d, test.strategy.Type == rollout.InPlaceManual)
				updating := 0
				for _, m := range sets[0].Machines {
					if m.InPlace == rollout.Selected {
						updating++
					}
				}
				require.LessOrEqual(t, updating, test.strategy.MaxUnavailable+test.strategy.MaxSurge)
			}
			require.Empty(t, sets[0].Machines)
			kept := 0
			for _, m := range sets[1].Machines {
				require.Equal(t, rollout.NotInPlace, m.InPlace)
				if m.Name[:3] == "old" {
					kept++
				}
			}
			require.Equal(t, test.kept, kept)
			require.Len(t, sets[1].Machines, 4)
		})
	}
}

func TestAScaleDownDoesNotWaitForUpdatesInPlace(t *testing.T) {
	old := rollout.Set{Name: "ms1", UID: "ms1", Replicas: 4}
	for i := range 4 {
		uid := types.UID(fmt.Sprintf("m%d", i))
		old.Machines = append(old.Machines, rollout.Machine{Machine: scale.Machine{Name: string(uid), UID: uid, Available: true, Ready: true}})
	}
	old.Machines[1].InPlace, old.Machines[1].InPlaceSet, old.Machines[3].Marked = rollout.Selected, "ms2", true
	d := rollout.Plan(rollout.Facts{
		Desired: contract.Some(3), Strategy: rollout.Strategy{Type: rollout.InPlaceAuto, MaxUnavailable: 1},
		Sets: []rollout.Set{old, {Name: "ms2", UID: "ms2", Matches: true, Created: time.Unix(1, 0)}},
	})
	require.Len(t, d.Replicas, 1)
	require.Equal(t, []scale.Victim{{Name: "m3", UID: "m3"}}, d.Replicas[0].Victims, "the marked Machine, and no update is waited for")
}
