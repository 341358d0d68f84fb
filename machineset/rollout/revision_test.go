package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

func TestOldEmptySetsBeyondTheLimitAreDeleted(t *testing.T) {
	f := paused(2, 0, 2).facts(newNames(), rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1})
	f.Sets = append(f.Sets, rollout.Set{Name: "c", UID: "c", Revision: 7}, rollout.Set{Name: "b", UID: "b", Revision: 3, Deleting: true})
	require.Empty(t, rollout.Plan(f).DeleteSets, "no limit")
	f.HistoryLimit = contract.Some(1)
	d := rollout.Plan(f)
	require.True(t, d.Complete)
	require.Equal(t, int64(8), d.Revision, "the template of an older set is current again")
	require.Equal(t, []rollout.Ref{{Name: "ms1", UID: "ms1"}}, d.DeleteSets)
}

func TestRollbackFindsTheRevision(t *testing.T) {
	sets := []rollout.Set{{Name: "a", Revision: 2}, {Name: "b", Revision: 5}, {Name: "c", Revision: 4, Deleting: true}}
	previous, found := rollout.Rollback(sets, 0)
	require.True(t, found)
	require.Equal(t, "a", previous.Name)
	_, found = rollout.Rollback(sets, 4)
	require.False(t, found)
}

func TestRevisionsAreNumberedAndRemembered(t *testing.T) {
	have := map[string]string{contract.RevisionAnnotation: "2", rollout.RevisionHistoryAnnotation: "1"}
	require.Empty(t, rollout.RevisionAnnotations(have, 2))
	got := rollout.RevisionAnnotations(have, 4)
	require.Equal(t, "1,2", got[rollout.RevisionHistoryAnnotation])
	n, err := rollout.ParseRevision(got)
	require.NoError(t, err)
	require.Equal(t, int64(4), n)
	_, err = rollout.ParseRevision(map[string]string{contract.RevisionAnnotation: "x"})
	require.Error(t, err)
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
