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
	ReasonRemediationRestricted  = "RemediationRestricted"            // an event: the check has stopped remediation; see the message
)

const (
	actionRemediate = "Remediate"
	messageWaiting  = "Waiting for remediation" // Cluster API's
)

// remediateStep carries out the plan for each Machine. A Machine that fails does not block the others.
func remediateStep(ctx context.Context, s *scope) (result, error) {
	outcomes := map[string]healthcheck.Outcome{} // without those of Machines that are skipped
	for _, o := range s.decision.Outcomes {
		outcomes[o.Name] = o
	}
	var errs []error
	for _, m := range s.members {
		if err := s.carryOut(ctx, m, outcomes[m.plan.Name]); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", s.env.kinds.Machine.GVK.Kind, m.state.Key, err))
		}
	}
	return result{}, errors.Join(errs...)
}

// carryOut writes the conditions of one Machine, on the version that was judged, and creates or deletes its request.
func (s *scope) carryOut(ctx context.Context, m *member, o healthcheck.Outcome) (err error) {
	set, removed := s.conditions(m, o)
	switch {
	case len(m.former) > 0: // nothing else remediates the Machine until they are gone; events report that
		return s.withdraw(ctx, m.former...)
	case s.leavesAlone(m):
		return nil
	case s.env.frame.Writer.Behind(m.object): // the event of this process's own write follows
		s.Requeue(engine.BehindRetry)
		return nil
	case isOver(m, o) && m.request != nil:
		err = s.withdraw(ctx, m.request)
	case o.Action == healthcheck.ActionMark:
		if confirmed, err := s.confirmUnhealthy(ctx, m); err != nil || !confirmed {
			s.Requeue(engine.BehindRetry) // usually the event of the Node comes first
			return err
		}
		mark := engine.Condition(contract.ConditionOwnerRemediated, metav1.ConditionFalse, ReasonWaitingForRemediation, messageWaiting)
		if s.external() {
			mark, err = s.request(ctx, m)
		}
		set = append(set, mark)
	}
	written, failed := engine.WriteConditions(ctx, s.env.frame.Writer, s.env.kinds.Machine, m.object, m.state, set, removed, s.Now)
	switch {
	case external.IsGone(failed):
		return err
	case failed == nil && err == nil && o.Action == healthcheck.ActionMark && client.Object(written) != m.object:
		s.recordMarked(m)
	}
	return errors.Join(err, failed)
}

// isOver reports whether the remediation of a Machine is over, if there is one.
func isOver(m *member, o healthcheck.Outcome) bool {
	return o.Action == healthcheck.ActionUnmark || m.plan.Verdict.Skipped
}

// conditions returns the conditions of a Machine that the check sets and removes, except the one that requests a remediation. A condition
// that the owner has written is the owner's, while there is an owner. ExternallyRemediated ends with its request, whoever deletes the
// request.
func (s *scope) conditions(m *member, o healthcheck.Outcome) (set []metav1.Condition, removed []string) {
	switch {
	case m.plan.Verdict.Skipped:
		removed = append(removed, contract.ConditionHealthCheckSucceeded)
	case m.plan.Verdict.Class != healthcheck.Pending:
		set = append(set, s.verdictOf(m, o))
	}
	mark, _ := engine.Find(m.state.Conditions, contract.ConditionOwnerRemediated)
	if isOver(m, o) && mark.Status == metav1.ConditionFalse && (mark.Reason == ReasonWaitingForRemediation || m.plan.Group == "") {
		removed = append(removed, contract.ConditionOwnerRemediated)
	}
	known, renewed := s.requests != nil || !s.external(), o.Action == healthcheck.ActionMark && s.external()
	if known && m.request == nil && !renewed && !m.plan.Deleting &&
		engine.HasStatus(m.state.Conditions, contract.ConditionExternallyRemediated, metav1.ConditionFalse) {
		removed = append(removed, contract.ConditionExternallyRemediated)
	}
	return set, removed
}

// leavesAlone reports whether the check does not write to a Machine that it does not judge: it is paused or being deleted, or
// another program has set its conditions.
func (s *scope) leavesAlone(m *member) bool {
	if !m.plan.Verdict.Skipped {
		return false
	}
	last, judged := engine.Find(m.state.Conditions, contract.ConditionHealthCheckSucceeded)
	return m.plan.Deleting || m.state.Paused() || judged && !slices.Contains([]string{
		healthcheck.ReasonSucceeded, healthcheck.ReasonUnhealthyNode, healthcheck.ReasonUnhealthyMachine,
		healthcheck.ReasonNodeStartupTimeout, healthcheck.ReasonNodeDeleted, healthcheck.ReasonHasRemediateAnnotation,
	}, last.Reason)
}

// verdictOf returns the condition HealthCheckSucceeded of a Machine, with the reason why nothing happens. Numbers, which change often, are
// only in the condition of the check.
func (s *scope) verdictOf(m *member, o healthcheck.Outcome) metav1.Condition {
	v, status := &m.plan.Verdict, metav1.ConditionTrue
	if v.Class == healthcheck.Unhealthy {
		status = metav1.ConditionFalse
	}
	message := v.Message
	if o.Reason == healthcheck.ReasonNoOwner {
		message += "\n  * Not remediated: " + o.Message
	} else if o.Action == healthcheck.ActionHold {
		message += fmt.Sprintf("\n  * Not remediated: %s, see %s %s", o.Reason, s.env.kinds.Check.GVK.Kind, s.State.Key.Name)
	}
	return engine.Condition(contract.ConditionHealthCheckSucceeded, status, v.Reason, message)
}

// recordMarked records an event on the Machine that it was marked.
func (s *scope) recordMarked(m *member) {
	if recorder := s.env.frame.Options.Recorder; recorder != nil {
		note := fmt.Sprintf("Machine %s has been marked as unhealthy: %s", m.state.Key, m.plan.Verdict.Message)
		recorder.Eventf(m.object, s.Object, corev1.EventTypeNormal, ReasonMachineMarkedUnhealthy, actionRemediate, "%s",
			engine.Bounded(note, engine.MaxNoteLength))
	}
}
