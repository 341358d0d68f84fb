package machine

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/machinist-dev/machinist/drain"
)

// conditionsStep sets the conditions that summarize others. It does not change a paused Machine's conditions.
func conditionsStep(ctx context.Context, s *Scope) (Result, error) {
	if s.paused {
		return Result{}, nil
	}
	unread := s.spareUnread()
	s.assertDeleting()
	s.Assert(s.updating())
	s.assertMissing()
	s.assertProvisioned()
	measured, err := s.assertUpToDate(ctx)
	ready := s.assertReady()
	available := s.assertAvailable()
	return Result{RequeueAfter: soonest(soonest(unread, measured), soonest(ready, available))}, err
}

// assertDeleting sets Deleting to False on a Machine that is not being deleted, or reports that the deletion has begun when no step has
// set a stage.
func (s *Scope) assertDeleting() {
	if s.State.Deleting.IsZero() {
		s.Assert(condition(ConditionDeleting, metav1.ConditionFalse, ReasonNotDeleting, ""))
		return
	}
	if c, found := s.Condition(ConditionDeleting); !found || c.Status != metav1.ConditionTrue {
		s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonDeleting, "Deletion started"))
	}
	s.sayLeft()
}

// assertMissing sets conditions that neither this pass nor an earlier one has set, because a missing condition can look like one that does
// not matter. Conditions that no step in the list sets stay missing.
func (s *Scope) assertMissing() {
	for _, kind := range []string{
		ConditionPaused, ConditionBootstrapConfigReady, ConditionInfrastructureReady, ConditionNodeReady, ConditionNodeHealthy,
	} {
		if _, found := s.Condition(kind); !found && !slices.Contains(s.env.unsaid, kind) {
			s.Assert(condition(kind, metav1.ConditionUnknown, ReasonNotYetReported, notReported))
		}
	}
}

// assertProvisioned explains why the phase does not become Running when no object represents the infrastructure.
func (s *Scope) assertProvisioned() {
	c, found := s.Condition(ConditionInfrastructureReady)
	if !s.env.untoldInfrastructure || !s.State.Deleting.IsZero() || (found && c.Reason != ReasonInfrastructureNotReported) {
		return
	}
	switch {
	case s.State.InfrastructureReady.Or(false) && found:
		s.Assert(condition(ConditionInfrastructureReady, metav1.ConditionTrue, ReasonReady, ""))
	case !s.State.InfrastructureReady.Or(false) && s.State.Node.Name != "":
		s.Assert(condition(ConditionInfrastructureReady, metav1.ConditionUnknown, ReasonInfrastructureNotReported, "The phase waits for a step that "+
			"calls Scope.SetInfrastructureReady, in every pass once the machine is there, because there is no step "+StepInfrastructure))
	}
}

// all returns the conditions of the Machine as they will be; the first of a type counts.
func (s *Scope) all() []metav1.Condition {
	all := make([]metav1.Condition, 0, len(s.stored)+len(s.asserted))
	return append(append(all, s.asserted...), s.stored...)
}

// stepFailure is the error of a step of the embedder.
type stepFailure struct {
	step string
	err  error
}

// maxFailureLength is the maximum length of a step's error in Ready.
const maxFailureLength = 1024

// failureLines returns the lines of Ready about failed steps. While a step keeps failing, its line keeps the text of the first error: many
// errors differ in each attempt, for example by a request number, and would cause a write each.
func failureLines(failures []stepFailure, before string) []string {
	said := strings.Split(before, "\n")
	lines := make([]string, 0, len(failures))
	for _, f := range failures {
		start := "* Step " + f.step + " failed: "
		line := start + bounded(strings.Join(strings.Fields(f.err.Error()), " "), maxFailureLength)
		if at := slices.IndexFunc(said, func(text string) bool { return strings.HasPrefix(text, start) }); at >= 0 {
			line = said[at]
		}
		lines = append(lines, line)
	}
	return lines
}

// assertReady returns when Ready changes with time.
func (s *Scope) assertReady() time.Duration {
	facts := readyFacts{Conditions: s.all(), Gates: s.State.ReadinessGates, Deleting: !s.State.Deleting.IsZero(), Unsaid: s.env.unsaid}
	before, _ := findCondition(s.stored, ConditionReady)
	facts.Before, facts.Failures = before.Status, failureLines(s.failures, before.Message)
	if s.lost != "" {
		facts.Failures = append(facts.Failures, "* "+s.lost)
	}
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

// assertAvailable returns when a Machine that is ready becomes available. An available Machine stays available while it is ready: a
// process whose clock is behind that of the previous one would compute a shorter time.
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
