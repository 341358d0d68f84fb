package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// remediateStep replaces Machines that a health check has marked: it deletes them, and StepScale creates others. A deletion is first
// recorded on the version of the set that was read, then reported in the Machine's condition, and then requested, so that a process that is
// stopped in between, or one whose caches are behind, replaces no second Machine.
func remediateStep(ctx context.Context, s *Scope) (Result, error) {
	if s.machines.Waiting {
		return Result{}, nil
	}
	if slices.ContainsFunc(s.machines.Own, func(m member) bool { return s.env.frame.Writer.Behind(m.Object) }) {
		return Result{RequeueAfter: engine.BehindRetry}, nil
	}
	d := scale.Remediate(s.remediationFacts())
	if !d.Wake.IsZero() {
		s.Requeue(max(d.Wake.Sub(s.Now), time.Second))
	}
	ledger := s.machines.Ledger
	ledger.Replaced = d.Replacements
	if err := s.machines.WriteLedger(ctx, ledger); err != nil {
		return Result{}, err
	}
	errs := make([]error, 0, len(d.Deferred)+len(d.Delete)+1)
	for _, one := range d.Deferred { // the reason of a Machine that has recovered is obsolete
		errs = append(errs, s.setRemediated(ctx, one.UID, one.Reason, one.Message))
	}
	var going []scale.Victim
	for _, v := range d.Delete {
		err := s.setRemediated(ctx, v.UID, contract.ReasonMachineDeleting, "Machine is being deleted to be replaced")
		if errs = append(errs, err); err == nil {
			going = append(going, v)
		}
	}
	keep := -len(going)
	for _, m := range s.machines.Own {
		if m.Deleting.IsZero() {
			keep++
		}
	}
	return Result{}, errors.Join(append(errs, s.machines.Delete(ctx, going, keep))...)
}

// remediationFacts returns the inputs of the decision.
func (s *Scope) remediationFacts() scale.RemediationFacts {
	controlled := metav1.GetControllerOfNoCopy(s.Object) != nil
	limits, err := scale.LimitsOf(&s.State.Metadata, controlled)
	facts := scale.RemediationFacts{
		Machines: s.plannable(), Next: s.machines.Ledger.Next, Replacements: s.machines.Ledger.Replaced, Limits: limits,
		Holds: s.remediationHolds(limits.Elsewhere, err), Now: s.Now,
	}
	if controlled {
		facts.MinAvailable = contract.Some(int(s.State.Replicas.Or(0)) - limits.MaxUnavailable)
	}
	return facts
}

// remediationHolds returns why nothing is replaced: the holds on creation and on deletion. elsewhere: another set creates.
func (s *Scope) remediationHolds(elsewhere bool, unreadable error) (holds []string) {
	for _, h := range s.machines.Holds {
		if !elsewhere || h.Reason != ReasonCreationDisabled && h.Reason != engine.ReasonTemplateMissing {
			holds = append(holds, h.Message)
		}
	}
	if unreadable != nil {
		holds = append(holds, fmt.Sprintf("annotation %s: %v: correct it, or remove it", scale.LimitsAnnotation, unreadable))
	}
	if !s.State.Replicas.Found() {
		holds = append(holds, scale.ReplicasNotSet)
	}
	if refused := s.machines.Refused(); refused != "" {
		holds = append(holds, refusedCreation(refused))
	}
	if slices.ContainsFunc(s.machines.Own, func(m member) bool { return m.Deleting.IsZero() && scale.Unreachable(m.State) }) {
		holds = append(holds, "the workload cluster does not answer, as the condition NodeReady of Machines shows")
	}
	return holds
}

// setRemediated sets the condition OwnerRemediated of a Machine, and removes it without a reason. The Machine is deleted only in the
// version that the write returns. A Machine that is gone is not an error.
func (s *Scope) setRemediated(ctx context.Context, uid types.UID, reason, message string) error {
	// every UID of a decision is that of a Machine of the set
	m := s.machines.Own[slices.IndexFunc(s.machines.Own, func(m member) bool { return m.UID == uid })]
	var set []metav1.Condition
	removed := []string{contract.ConditionOwnerRemediated}
	if reason != "" {
		message = engine.Bounded(message, engine.MaxMessageLength)
		set = append(set, engine.Condition(contract.ConditionOwnerRemediated, metav1.ConditionFalse, reason, message))
		removed = nil
	}
	written, err := engine.WriteConditions(ctx, s.env.frame.Writer, s.env.kinds.Machine, m.Object, m.State, set, removed, s.Now)
	if err == nil {
		m.ResourceVersion = written.GetResourceVersion()
	}
	if external.IsGone(err) {
		return nil
	}
	return err
}
