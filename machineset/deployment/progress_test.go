package deployment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// What a process remembers is lost when it is restarted: the deadline is judged by what is stored.
func TestTheProgressDeadlineRunsFromTheBeginningOfARolloutAcrossRestarts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := func(kind string, status metav1.ConditionStatus, reason rollout.Progress, ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: string(reason), LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	}
	long, short := time.Hour, time.Minute
	both := func(progressing metav1.ConditionStatus, reason rollout.Progress, since time.Duration, rolling metav1.ConditionStatus,
		began time.Duration) []metav1.Condition {
		return []metav1.Condition{said(ConditionProgressing, progressing, reason, since), said(ConditionRollingOut, rolling, "", began)}
	}
	for name, c := range map[string]struct {
		stored           []metav1.Condition
		complete, paused bool
		outdated         bool
		want             rollout.Progress
	}{
		"a first rollout has just begun": {outdated: true, want: rollout.Progressing},
		"a rollout begins long after the last one": {
			stored:   both("True", rollout.Completed, long, "False", long),
			outdated: true, want: rollout.Progressing,
		},
		"it has begun a minute ago": {
			stored:   both("True", rollout.Progressing, long, "True", short),
			outdated: true, want: rollout.Progressing,
		},
		"nothing has changed for long": {
			stored:   both("True", rollout.Progressing, long, "True", long),
			outdated: true, want: rollout.DeadlineExceeded,
		},
		"it stays exceeded": {
			stored:   both("False", rollout.DeadlineExceeded, short, "True", long),
			outdated: true, want: rollout.DeadlineExceeded,
		},
		"a rollout is resumed after a long pause": {
			stored:   both("Unknown", rollout.ProgressPaused, long, "True", long),
			outdated: true, want: rollout.Progressing,
		},
		"a Machine fails long after the rollout": {
			stored: both("True", rollout.Completed, long, "False", long),
			want:   rollout.Completed,
		},
		"a paused rollout": {paused: true, outdated: true, want: rollout.ProgressPaused},
		"a complete one":   {complete: true, want: rollout.Completed},
	} {
		s := &Scope{planned: true, env: &Reconciler{}}
		s.Now, s.Stored, s.State.RolloutPaused = now, c.stored, c.paused
		s.State.ProgressDeadline = contract.Some(10 * time.Minute)
		s.plan.Complete, s.plan.Current.UID = c.complete, "new"
		one := &set{Child: children.Child[contract.MachineSetState]{State: new(contract.MachineSetState)}}
		one.Metadata = &one.State.Metadata
		one.UID, one.Created = "new", now.Add(-long)
		m := machine{State: new(contract.MachineState)}
		m.State.Created = now.Add(-long)
		one.machines = append(one.machines, m)
		if c.outdated {
			one.UID = "old"
			s.plan.Outdated = append(s.plan.Outdated, one.UID)
		}
		s.observed = append(s.observed, one)
		facts := s.statusFacts()
		all := s.progressing(&facts)
		require.Len(t, all, 1, name)
		require.Equal(t, string(c.want), all[0].Reason, name)
	}
}
