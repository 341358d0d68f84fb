package deployment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
)

// What a process remembers is lost when it is restarted: the deadline is judged by what is stored.
func TestTheProgressDeadlineRunsFromTheBeginningOfARolloutAcrossRestarts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	said := func(kind string, status metav1.ConditionStatus, reason string, ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	}
	long, short := time.Hour, time.Minute
	both := func(status metav1.ConditionStatus, reason string, since time.Duration, rolling metav1.ConditionStatus,
		began time.Duration) []metav1.Condition {
		return []metav1.Condition{said(ConditionProgressing, status, reason, since), said(ConditionRollingOut, rolling, "", began)}
	}
	for name, c := range map[string]struct {
		stored           []metav1.Condition
		complete, paused bool
		outdated         bool
		want             string
		left             time.Duration // until it has to be judged again; zero is not compared
	}{
		"a first rollout has just begun": {outdated: true, want: progressing},
		"a rollout begins long after the last one": {
			stored:   both("True", completed, long, "False", long),
			outdated: true, want: progressing,
		},
		"it has begun a minute ago": {
			stored:   both("True", progressing, long, "True", short),
			outdated: true, want: progressing,
		},
		"nothing has changed for long": {
			stored:   both("True", progressing, long, "True", long),
			outdated: true, want: deadlineExceeded,
		},
		"a second is left": {
			stored:   both("True", progressing, long, "True", 10*time.Minute-time.Second),
			outdated: true, want: progressing, left: time.Second,
		},
		"none is left": {
			stored:   both("True", progressing, long, "True", 10*time.Minute),
			outdated: true, want: deadlineExceeded,
		},
		"it stays exceeded": {
			stored:   both("False", deadlineExceeded, short, "True", long),
			outdated: true, want: deadlineExceeded,
		},
		"a rollout is resumed after a long pause": {
			stored:   both("Unknown", progressPaused, long, "True", long),
			outdated: true, want: progressing,
		},
		"a Machine fails long after the rollout": {
			stored: both("True", completed, long, "False", long),
			want:   completed,
		},
		"a paused rollout": {paused: true, outdated: true, want: progressPaused},
		"a complete one":   {complete: true, want: completed},
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
		require.Equal(t, c.want, all[0].Reason, name)
		if c.left > 0 {
			require.Equal(t, c.left, s.RequeueAfter(), name)
		}
	}
}
