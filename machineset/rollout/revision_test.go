package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestOldEmptySetsBeyondTheLimitAreDeleted(t *testing.T) {
	f := paused(2, 0, 2).facts(newNames(), rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1})
	f.Sets = append(f.Sets, rollout.Set{Name: "c", UID: "c", Revision: 7}, rollout.Set{Name: "b", UID: "b", Revision: 3, Deleting: true})
	require.Empty(t, rollout.Plan(f).DeleteSets, "no limit")
	f.HistoryLimit = contract.Some(1)
	d := rollout.Plan(f)
	require.True(t, d.Complete)
	require.Equal(t, int64(8), d.Revision, "the template of an older set is current again")
	require.Equal(t, []scale.Victim{{Name: "ms1", UID: "ms1"}}, d.DeleteSets)
}

func FuzzPlan(f *testing.F) {
	f.Add(uint8(10), uint8(2), uint8(1), []byte{5, 3, 1, 2, 0, 0, 4, 6, 0, 1})
	f.Fuzz(func(t *testing.T, desired, surge, unavailable uint8, raw []byte) {
		w := world{desired: int(desired)}
		for i, b := range raw[:min(len(raw), 10)] {
			w.sets[i/5].exists = true
			if i%5 == 4 {
				w.sets[i/5].replicas = int(b)
			} else {
				w.sets[i/5].count[i%5] = int(b) % 16
			}
		}
		facts := w.facts(newNames(), rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: int(surge), MaxUnavailable: int(unavailable)})
		d := rollout.Plan(facts)
		require.Empty(t, broken(facts, d))
		for i, j := 0, len(facts.Sets)-1; i < j; i, j = i+1, j-1 {
			facts.Sets[i], facts.Sets[j] = facts.Sets[j], facts.Sets[i]
		}
		require.Equal(t, d, rollout.Plan(facts))
	})
}
