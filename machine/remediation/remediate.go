package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// Reasons of the conditions OwnerRemediated and ExternallyRemediated, and of events. They are Cluster API's.
const (
	ReasonWaitingForRemediation  = "WaitingForRemediation"            // the remediation was requested
	ReasonTemplateNotFound       = "RemediationTemplateNotFound"      // the template of remediation requests does not exist
	ReasonRequestCreationFailed  = "RemediationRequestCreationFailed" // the object that remediates the Machine could not be created
	ReasonMachineMarkedUnhealthy = "MachineMarkedUnhealthy"           // an event: the check has requested a remediation
	ReasonRemediationRestricted  = "RemediationRestricted"            // an event: the check has stopped to remediate; the message says why
)

const (
	actionRemediate = "Remediate"
	messageWaiting  = "Waiting for remediation" // Cluster API's
)

// remediateStep carries the plan out for each Machine. One that fails does not keep the others from it.
func remediateStep(ctx context.Context, s *scope) (result, error) {
	outcomes := map[string]healthcheck.Outcome{}
	for _, o := range s.decision.Outcomes {
		outcomes[o.Name] = o
	}
	var errs []error
	for _, m := range s.members {
		o, expected := outcomes[m.plan.Name]
		if said, judged := m.verdict(); m.isSpared() && (said || !judged && m.plan.Marked) {
			o.Action, expected = healthcheck.ActionUnmark, true // the check takes back what it has said
		}
		var err error
		switch {
		case m.former != nil: // nobody else is asked to remediate the Machine until it is gone, which is an event
			err = s.withdraw(ctx, m.former)
		case !expected:
		case s.env.frame.Writer.Behind(m.object): // the event of this process's own write follows
			s.Requeue(engine.BehindRetry)
		default:
			err = s.carryOut(ctx, m, o)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", s.env.kinds.Machine.GVK.Kind, m.state.Key, err))
		}
	}
	return result{}, errors.Join(errs...)
}

// outlives reports whether the condition about a request for remediation is there, and the request is gone, whoever has deleted it.
func (s *scope) outlives(m *member) bool {
	known := s.requests.byName != nil || !s.external()
	return known && m.request == nil && m.former == nil && !m.plan.Deleting &&
		engine.HasStatus(m.state.Conditions, contract.ConditionExternallyRemediated, metav1.ConditionFalse)
}

// isSpared reports whether a person keeps the check from judging the Machine. Nothing is written to one that is paused, and one in deletion
// is its owner's.
func (m *member) isSpared() bool {
	_, skips := m.state.Annotations[healthcheck.SkipAnnotation]
	return skips && m.plan.Verdict.Skipped && m.plan.Shared == "" && !m.plan.Deleting && !m.state.Paused()
}

// verdict reports whether the Machine has a verdict, and whether a check has said it: another program has reasons of its own.
func (m *member) verdict() (said, judged bool) {
	c, judged := engine.Find(m.state.Conditions, contract.ConditionHealthCheckSucceeded)
	return judged && slices.Contains([]string{
		healthcheck.ReasonSucceeded, healthcheck.ReasonUnhealthyNode, healthcheck.ReasonUnhealthyMachine,
		healthcheck.ReasonNodeStartupTimeout, healthcheck.ReasonNodeDeleted, healthcheck.ReasonHasRemediateAnnotation,
	}, c.Reason), judged
}

// carryOut writes the conditions of one Machine, and creates or deletes its request.
func (s *scope) carryOut(ctx context.Context, m *member, o healthcheck.Outcome) error {
	if o.Action == healthcheck.ActionMark {
		if stands, err := s.stands(ctx, m); err != nil || !stands {
			s.Requeue(engine.BehindRetry) // usually the event of the Node comes first
			return err
		}
	}
	return s.writeOutcome(ctx, m, o)
}

// writeOutcome is carryOut once it is known that a Machine to mark is still unhealthy. The conditions are written on the version that was
// judged.
func (s *scope) writeOutcome(ctx context.Context, m *member, o healthcheck.Outcome) error {
	var u contract.MachineUpdate
	var failed error
	want := s.verdictOf(m, o)
	switch o.Action {
	case healthcheck.ActionMark:
		var c metav1.Condition
		c, failed = s.mark(ctx, m)
		want = append(want, c)
	case healthcheck.ActionUnmark:
		u.RemoveConditions, failed = s.unmark(ctx, m)
		if said, _ := m.verdict(); said && m.isSpared() {
			u.RemoveConditions = append(u.RemoveConditions, contract.ConditionHealthCheckSucceeded)
		}
	case healthcheck.ActionNone, healthcheck.ActionWait, healthcheck.ActionHold:
	}
	if s.outlives(m) && (o.Action != healthcheck.ActionMark || !s.external()) {
		u.RemoveConditions = append(u.RemoveConditions, contract.ConditionExternallyRemediated)
	}
	var generation int64
	if s.env.kinds.Machine.StatusSubresource {
		generation = m.state.Generation
	}
	u.Conditions = contract.ChangedConditions(m.state.Conditions, want, generation, s.Now)
	written, err := engine.WriteStatus(ctx, s.env.frame.Writer, s.env.kinds.Machine, m.object, u)
	switch {
	case external.SaysGone(err):
		return failed
	case err == nil && failed == nil && o.Action == healthcheck.ActionMark && client.Object(written) != m.object:
		s.tell(m)
	}
	return errors.Join(failed, err)
}

// verdictOf is the condition HealthCheckSucceeded of a Machine; none while it is not judged.
func (s *scope) verdictOf(m *member, o healthcheck.Outcome) []metav1.Condition {
	const kind = contract.ConditionHealthCheckSucceeded
	v := &m.plan.Verdict
	switch v.Class {
	case healthcheck.Healthy:
		return []metav1.Condition{engine.Condition(kind, metav1.ConditionTrue, v.Reason, "")}
	case healthcheck.Unhealthy:
		return []metav1.Condition{engine.Condition(kind, metav1.ConditionFalse, v.Reason, s.explained(v, o))}
	case healthcheck.Pending:
	}
	return nil
}

// mark requests the remediation of a Machine, and returns the condition that says so.
func (s *scope) mark(ctx context.Context, m *member) (metav1.Condition, error) {
	if s.external() {
		return s.request(ctx, m)
	}
	return engine.Condition(contract.ConditionOwnerRemediated, metav1.ConditionFalse, ReasonWaitingForRemediation, messageWaiting), nil
}

// unmark withdraws the request of a Machine, and returns the conditions to remove. A condition that its owner has written is the owner's,
// as long as it has one.
func (s *scope) unmark(ctx context.Context, m *member) ([]string, error) {
	kind := contract.ConditionOwnerRemediated
	if s.external() {
		if m.request == nil {
			return nil, nil
		}
		if err := s.withdraw(ctx, m.request); err != nil {
			return nil, err
		}
		kind = contract.ConditionExternallyRemediated
	}
	c, found := engine.Find(m.state.Conditions, kind)
	owners := !s.external() && c.Reason != ReasonWaitingForRemediation && m.plan.Group != ""
	if !found || c.Status != metav1.ConditionFalse || owners {
		return nil, nil
	}
	return []string{kind}, nil
}

// explained is the message for an unhealthy Machine, with the reason why nothing happens to it. Numbers, which change often, are only in
// the condition of the check.
func (s *scope) explained(v *healthcheck.Verdict, o healthcheck.Outcome) string {
	switch {
	case o.Action != healthcheck.ActionHold:
		return v.Message
	case o.Reason == healthcheck.ReasonNoOwner:
		return v.Message + "\n  * Not remediated: " + o.Message
	}
	return fmt.Sprintf("%s\n  * Not remediated: %s, see %s %s", v.Message, o.Reason, s.env.kinds.Check.GVK.Kind, s.State.Key.Name)
}

// tell records that a Machine was marked, on the Machine.
func (s *scope) tell(m *member) {
	if recorder := s.env.frame.Options.Recorder; recorder != nil {
		note := fmt.Sprintf("Machine %s has been marked as unhealthy: %s", m.state.Key, m.plan.Verdict.Message)
		recorder.Eventf(m.object, s.Object, corev1.EventTypeNormal, ReasonMachineMarkedUnhealthy, actionRemediate, "%s",
			engine.Bounded(note, engine.MaxNoteLength))
	}
}
