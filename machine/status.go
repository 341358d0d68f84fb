package machine

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/machinist-dev/machinist/drain"
)

// conditionsStep derives what summarises the rest. It leaves a paused Machine's conditions as they are.
func conditionsStep(ctx context.Context, s *Scope) (Result, error) {
	if s.paused {
		return Result{}, nil
	}
	unread := s.spareUnread()
	s.assertDeleting()
	s.Assert(s.updating())
	s.assertMissing()
	measured, err := s.assertUpToDate(ctx)
	ready := s.assertReady()
	available := s.assertAvailable()
	return Result{RequeueAfter: soonest(soonest(unread, measured), soonest(ready, available))}, err
}

// assertDeleting says that the Machine lives, or that its deletion has begun when no step has said yet how far it is.
func (s *Scope) assertDeleting() {
	if s.State.Deleting.IsZero() {
		s.Assert(condition(ConditionDeleting, metav1.ConditionFalse, ReasonNotDeleting, ""))
		return
	}
	if c, found := s.Condition(ConditionDeleting); !found || c.Status != metav1.ConditionTrue {
		s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonDeleting, "Deletion started"))
	}
}

// assertMissing fills in what no step of this pass and of those before has said, so that nobody takes a condition that is missing
// for one that does not matter. What no step is there to say does not matter.
func (s *Scope) assertMissing() {
	for _, kind := range []string{
		ConditionPaused, ConditionBootstrapConfigReady, ConditionInfrastructureReady, ConditionNodeReady, ConditionNodeHealthy,
	} {
		if _, found := s.Condition(kind); !found && !slices.Contains(s.env.unsaid, kind) {
			s.Assert(condition(kind, metav1.ConditionUnknown, ReasonNotYetReported, notReported))
		}
	}
}

// all are the conditions of the Machine as they will be; the first of a type counts.
func (s *Scope) all() []metav1.Condition {
	all := make([]metav1.Condition, 0, len(s.stored)+len(s.asserted))
	return append(append(all, s.asserted...), s.stored...)
}

// assertReady returns when time alone changes what Ready says.
func (s *Scope) assertReady() time.Duration {
	facts := readyFacts{Conditions: s.all(), Gates: s.State.ReadinessGates, Deleting: !s.State.Deleting.IsZero(), Unsaid: s.env.unsaid}
	var again time.Duration
	if facts.Deleting {
		stage, _ := s.Condition(ConditionDeleting)
		facts.Stage, again = decideStage(stageFacts{
			Reason: stage.Reason, Deleting: s.State.Deleting, DrainStarted: s.State.DrainStarted,
			Blockers: s.Blockers, Counts: ptr.Deref(s.waiting, drain.Counts{}), Now: s.Now,
		})
	}
	s.Assert(summarise(facts))
	return again
}

// assertAvailable returns when a Machine that is ready becomes available. One that was found to be is so for as long as it stays ready:
// a process whose clock is behind that of the one before sees less time gone by.
func (s *Scope) assertAvailable() time.Duration {
	ready, _ := findCondition(s.asserted, ConditionReady)
	since, now := s.Now, s.Now
	if before, found := findCondition(s.stored, ConditionReady); found && before.Status == ready.Status {
		since = before.LastTransitionTime.Time
	}
	if before, found := findCondition(s.stored, ConditionAvailable); found && before.Status == metav1.ConditionTrue {
		now = later(now, before.LastTransitionTime.Time)
	}
	c, again := decideAvailable(ready.Status, since, s.State.MinReady.Or(0), now)
	s.Assert(c)
	return again
}
