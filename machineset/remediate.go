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

// remediateStep replaces Machines that a health check has marked: it deletes them, and StepScale creates others. What is to be deleted is
// recorded first, on the version of the set that was read, then said in the Machine's condition, and then done, so that a process that is
// stopped in between, or another one whose caches are behind, replaces no second Machine for the same.
func remediateStep(ctx context.Context, s *Scope) (Result, error) {
	if s.machines.Waiting {
		return Result{}, nil
	}
	if slices.ContainsFunc(s.machines.Own, func(m member) bool { return s.env.frame.Writer.Behind(m.Object) }) {
		return Result{RequeueAfter: engine.BehindRetry}, nil
	}
	facts, readable := s.remediationFacts()
	d := scale.Remediate(facts)
	if !d.Wake.IsZero() {
		s.Requeue(max(d.Wake.Sub(s.Now), time.Second))
	}
	if readable {
		if err := s.record(ctx, d.Replacements); err != nil {
			return Result{}, err
		}
	}
	errs := make([]error, 0, len(d.Deferred)+1)
	for _, one := range d.Deferred { // those that have recovered have no reason any more
		_, err := s.sayRemediated(ctx, one.UID, one.Reason, one.Message)
		errs = append(errs, err)
	}
	return Result{}, errors.Join(append(errs, s.remediate(ctx, d.Delete))...)
}

// record writes which Machines are replaced on the version of the set that was read.
func (s *Scope) record(ctx context.Context, replacements scale.Replacements) error {
	text := replacements.Text(s.State.UID)
	if text == s.State.Annotations[scale.ReplacementsAnnotation] {
		return nil
	}
	change := contract.SetTo(text)
	if text == "" {
		change = contract.Cleared[string]()
	}
	s.ChangeAnnotation(scale.ReplacementsAnnotation, change)
	return s.Commit(ctx)
}

// remediationFacts are the inputs of the decision, and whether the record of earlier replacements could be read.
func (s *Scope) remediationFacts() (facts scale.RemediationFacts, readable bool) {
	controlled := metav1.GetControllerOfNoCopy(s.Object) != nil
	limits, limitsErr := scale.LimitsOf(&s.State.Metadata, controlled)
	replacements, recordErr := scale.ParseReplacements(s.State.Annotations[scale.ReplacementsAnnotation], s.State.UID)
	facts = scale.RemediationFacts{
		Machines: s.plannable(), Next: s.machines.Ledger.Next, Replacements: replacements, Limits: limits,
		Holds: s.remediationHolds(limits.Elsewhere, limitsErr, recordErr), Now: s.Now,
	}
	if controlled {
		facts.MinAvailable = contract.Some(int(s.State.Replicas.Or(0)) - limits.MaxUnavailable)
	}
	return facts, recordErr == nil
}

// remediationHolds are why nothing is replaced: what keeps the set from creating, and what keeps it from deleting. elsewhere: another set
// creates.
func (s *Scope) remediationHolds(elsewhere bool, unreadable ...error) (holds []string) {
	for _, h := range s.machines.Holds {
		if !elsewhere || h.Reason != ReasonCreationDisabled && h.Reason != engine.ReasonTemplateMissing {
			holds = append(holds, h.Message)
		}
	}
	for _, err := range unreadable {
		if err != nil {
			holds = append(holds, fmt.Sprintf("annotations %s and %s: %v: correct them, or remove them",
				scale.LimitsAnnotation, scale.ReplacementsAnnotation, err))
		}
	}
	if !s.State.Replicas.Found() {
		holds = append(holds, scale.ReplicasNotSet)
	}
	if refused := s.machines.Refused(); refused != "" {
		holds = append(holds, refusedCreation(refused))
	}
	if slices.ContainsFunc(s.machines.Own, func(m member) bool { return m.Deleting.IsZero() && scale.Unreachable(m.State) }) {
		holds = append(holds, "the workload cluster does not answer, as the condition NodeReady of Machines says")
	}
	return holds
}

// sayRemediated says in the condition OwnerRemediated of a Machine what becomes of it, and removes that without a reason. It reports
// whether the Machine is there, which is deleted only as it is then.
func (s *Scope) sayRemediated(ctx context.Context, uid types.UID, reason, message string) (bool, error) {
	// every UID of a decision is that of a Machine of the set
	m := s.machines.Own[slices.IndexFunc(s.machines.Own, func(m member) bool { return m.UID == uid })]
	u := contract.MachineUpdate{RemoveConditions: []string{contract.ConditionOwnerRemediated}}
	if reason != "" {
		message = engine.Bounded(message, engine.MaxMessageLength)
		say := engine.Condition(contract.ConditionOwnerRemediated, metav1.ConditionFalse, reason, message)
		u = contract.MachineUpdate{
			Conditions: contract.ChangedConditions(m.State.Conditions, []metav1.Condition{say}, m.Generation, s.Now),
		}
	}
	written, err := engine.WriteStatus(ctx, s.env.frame.Writer, s.env.kinds.Machine, m.Object, u)
	if external.SaysGone(err) {
		return false, nil
	}
	if err == nil {
		m.ResourceVersion = written.GetResourceVersion()
	}
	return err == nil, err
}

// remediate says in the conditions of Machines that they are replaced, and deletes those that have not changed since.
func (s *Scope) remediate(ctx context.Context, victims []scale.Victim) error {
	var going []scale.Victim
	var errs []error
	for _, v := range victims {
		there, err := s.sayRemediated(ctx, v.UID, contract.ReasonMachineDeleting, "Machine is being deleted to be replaced")
		if errs = append(errs, err); there {
			going = append(going, v)
		}
	}
	keep := -len(going)
	for _, m := range s.machines.Own {
		if m.Deleting.IsZero() {
			keep++
		}
	}
	return errors.Join(append(errs, s.machines.Delete(ctx, going, keep))...)
}
