package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

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

func TestRollbackFindsTheRevision(t *testing.T) {
	one := func(revision int64, matches, deleting bool) rollout.Set {
		return rollout.Set{Name: fmt.Sprint(revision), Revision: revision, Matches: matches, Deleting: deleting}
	}
	for name, tc := range map[string]struct {
		sets     []rollout.Set
		revision int64
		want     string // the name of the set, empty for none
	}{
		"the one before the current one": {sets: []rollout.Set{one(2, false, false), one(5, true, false)}, want: "2"},
		"sets in deletion do not count": {
			sets: []rollout.Set{one(2, false, false), one(5, true, false), one(4, false, true)}, want: "2"},
		"one in deletion by its number":    {sets: []rollout.Set{one(5, true, false), one(4, false, true)}, revision: 4},
		"one by its number":                {sets: []rollout.Set{one(2, false, false), one(5, true, false)}, revision: 5, want: "5"},
		"no set has the template yet":      {sets: []rollout.Set{one(1, false, false), one(2, false, false)}, want: "2"},
		"the only set, of before a change": {sets: []rollout.Set{one(1, false, false)}, want: "1"},
		"the set with the template is going": {
			sets: []rollout.Set{one(1, false, false), one(2, false, false), one(3, true, true)}, want: "2"},
		"the set with the template is not numbered yet": {
			sets: []rollout.Set{one(1, false, false), one(2, false, false), one(0, true, false)}, want: "2"},
		"again, before the set of the first time has a new number": {
			sets: []rollout.Set{one(1, true, false), one(2, false, false)}, want: "1"},
		"the first revision is current": {sets: []rollout.Set{one(1, true, false)}},
		"none is numbered":              {sets: []rollout.Set{one(0, false, false)}},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Reverse(tc.sets)
			for range 2 {
				slices.Reverse(tc.sets)
				got, found := rollout.Rollback(tc.sets, tc.revision)
				require.Equal(t, tc.want, got.Name)
				require.Equal(t, tc.want != "", found)
			}
		})
	}
}

func TestProgressIsJudgedByItsDeadline(t *testing.T) {
	now, minute := time.Unix(1000, 0), contract.Some(time.Minute)
	state, left := rollout.JudgeProgress(false, false, minute, now.Add(-time.Second), now)
	require.Equal(t, rollout.Progressing, state)
	require.Equal(t, 59*time.Second, left)
	state, _ = rollout.JudgeProgress(false, false, minute, now.Add(-time.Minute), now)
	require.Equal(t, rollout.DeadlineExceeded, state)
	state, _ = rollout.JudgeProgress(true, false, minute, now.Add(-time.Hour), now)
	require.Equal(t, rollout.Completed, state)
	state, _ = rollout.JudgeProgress(false, true, minute, now.Add(-time.Hour), now)
	require.Equal(t, rollout.ProgressPaused, state)
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
