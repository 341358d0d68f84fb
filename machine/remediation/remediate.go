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
	outcomes := map[string]healthcheck.Outcome{} // without those of Machines that are skipped or shared
	for _, o := range s.decision.Outcomes {
		outcomes[o.Name] = o
	}
	var errs []error
	for _, m := range s.members {
		var err error
		switch {
		case m.former != nil: // nobody else is asked to remediate the Machine until it is gone, which is an event
			err = s.withdraw(ctx, m.former)
		case m.plan.Shared != "" || m.plan.Verdict.Skipped && !s.takesBack(m):
		case s.env.frame.Writer.Behind(m.object): // the event of this process's own write follows
			s.Requeue(engine.BehindRetry)
		default:
			err = s.carryOut(ctx, m, outcomes[m.plan.Name])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", s.env.kinds.Machine.GVK.Kind, m.state.Key, err))
		}
	}
	return result{}, errors.Join(errs...)
}

// takesBack reports whether the check takes back what it has said of a Machine that a person keeps it from judging. Nothing is written
// to one that is paused, one in deletion is its owner's, and another program has reasons of its own.
func (s *scope) takesBack(m *member) bool {
	if m.plan.Deleting || m.state.Paused() {
		return false
	}
	c, judged := engine.Find(m.state.Conditions, contract.ConditionHealthCheckSucceeded)
	return !judged && (m.plan.Marked || s.outlives(m, healthcheck.ActionNone)) || slices.Contains([]string{
		healthcheck.ReasonSucceeded, healthcheck.ReasonUnhealthyNode, healthcheck.ReasonUnhealthyMachine,
		healthcheck.ReasonNodeStartupTimeout, healthcheck.ReasonNodeDeleted, healthcheck.ReasonHasRemediateAnnotation,
	}, c.Reason)
}

// outlives reports whether the condition about a request for remediation is there, and the request is gone, whoever has deleted it, and is
// not made anew.
func (s *scope) outlives(m *member, action healthcheck.Action) bool {
	known, renewed := s.requests != nil || !s.external(), action == healthcheck.ActionMark && s.external()
	return known && !renewed && m.request == nil && m.former == nil && !m.plan.Deleting &&
		engine.HasStatus(m.state.Conditions, contract.ConditionExternallyRemediated, metav1.ConditionFalse)
}

// carryOut writes the conditions of one Machine, on the version that was judged, and creates or deletes its request.
func (s *scope) carryOut(ctx context.Context, m *member, o healthcheck.Outcome) (err error) {
	var u contract.MachineUpdate
	want := s.verdictOf(m, o)
	switch {
	case o.Action == healthcheck.ActionMark:
		if stands, err := s.stands(ctx, m); err != nil || !stands {
			s.Requeue(engine.BehindRetry) // usually the event of the Node comes first
			return err
		}
		mark := engine.Condition(contract.ConditionOwnerRemediated, metav1.ConditionFalse, ReasonWaitingForRemediation, messageWaiting)
		if s.external() {
			mark, err = s.request(ctx, m)
		}
		want = append(want, mark)
	case o.Action == healthcheck.ActionUnmark || m.plan.Verdict.Skipped:
		u.RemoveConditions, err = s.unmark(ctx, m)
	}
	if s.outlives(m, o.Action) {
		u.RemoveConditions = append(u.RemoveConditions, contract.ConditionExternallyRemediated)
	}
	var generation int64
	if s.env.kinds.Machine.StatusSubresource {
		generation = m.state.Generation
	}
	u.Conditions = contract.ChangedConditions(m.state.Conditions, want, generation, s.Now)
	written, failed := engine.WriteStatus(ctx, s.env.frame.Writer, s.env.kinds.Machine, m.object, u)
	switch {
	case external.SaysGone(failed):
		return err
	case failed == nil && err == nil && o.Action == healthcheck.ActionMark && client.Object(written) != m.object:
		s.tell(m)
	}
	return errors.Join(err, failed)
}

// verdictOf is the condition HealthCheckSucceeded of a Machine, with the reason why nothing happens to it; none while it is not judged.
// Numbers, which change often, are only in the condition of the check.
func (s *scope) verdictOf(m *member, o healthcheck.Outcome) []metav1.Condition {
	v := &m.plan.Verdict
	status, message := metav1.ConditionTrue, v.Message
	switch {
	case v.Class == healthcheck.Pending:
		return nil
	case v.Class == healthcheck.Unhealthy:
		status = metav1.ConditionFalse
	}
	if o.Reason == healthcheck.ReasonNoOwner {
		message += "\n  * Not remediated: " + o.Message
	} else if o.Action == healthcheck.ActionHold {
		message += fmt.Sprintf("\n  * Not remediated: %s, see %s %s", o.Reason, s.env.kinds.Check.GVK.Kind, s.State.Key.Name)
	}
	return []metav1.Condition{engine.Condition(contract.ConditionHealthCheckSucceeded, status, v.Reason, message)}
}

// unmark withdraws the request of a Machine, whose condition ends with it, and returns the other conditions to remove. A condition that its
// owner has written is the owner's, as long as it has one.
func (s *scope) unmark(ctx context.Context, m *member) (remove []string, err error) {
	if m.plan.Verdict.Skipped {
		remove = append(remove, contract.ConditionHealthCheckSucceeded)
	}
	mark, found := engine.Find(m.state.Conditions, contract.ConditionOwnerRemediated)
	if found && mark.Status == metav1.ConditionFalse && (mark.Reason == ReasonWaitingForRemediation || m.plan.Group == "") {
		remove = append(remove, contract.ConditionOwnerRemediated)
	}
	if m.request == nil {
		return remove, nil
	}
	return remove, s.withdraw(ctx, m.request)
}

// tell records that a Machine was marked, on the Machine.
func (s *scope) tell(m *member) {
	if recorder := s.env.frame.Options.Recorder; recorder != nil {
		note := fmt.Sprintf("Machine %s has been marked as unhealthy: %s", m.state.Key, m.plan.Verdict.Message)
		recorder.Eventf(m.object, s.Object, corev1.EventTypeNormal, ReasonMachineMarkedUnhealthy, actionRemediate, "%s",
			engine.Bounded(note, engine.MaxNoteLength))
	}
}
