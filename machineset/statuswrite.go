package machineset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
)

// writeStatus writes the status in one request, when it says something new and the last write is not a moment ago.
func (s *Scope) writeStatus(ctx context.Context, failed bool) error {
	if s.waiting || (failed && s.paused) {
		return nil
	}
	generation := int64(0)
	if s.env.kinds.Set.StatusSubresource {
		generation = s.set.GetGeneration()
	}
	u := s.statusUpdate(failed)
	u.Conditions = contract.ChangedConditions(s.state.Conditions, u.Conditions, generation, s.now)
	if !failed && s.counted && generation != 0 { // else it was not looked at as a whole
		u.ObservedGeneration = contract.SetTo(generation)
	}
	contents, err := patch.Apply(s.env.kinds.Set, s.set, u)
	if err != nil {
		return err
	}
	document := contents.Status()
	if !s.env.kinds.Set.StatusSubresource {
		document = contents.Whole()
	}
	if document.Empty() {
		return nil
	}
	mem := s.mem()
	if due := mem.statusAt.Add(s.env.options.StatusDelay); s.env.options.StatusDelay > 0 && s.now.Before(due) {
		s.requeue(due.Sub(s.now))
		return nil
	}
	written := pass.NewObject(s.env.kinds.Set)
	if err := s.env.writer.Send(ctx, s.set, written, document, s.env.kinds.Set.StatusSubresource, true); err != nil {
		return s.statusRefused(err)
	}
	mem.statusAt = s.now
	return nil
}

// statusRefused adds to the error of a status write what a person can do; it returns nil when the set is gone.
func (s *Scope) statusRefused(err error) error {
	switch {
	case external.SaysGone(err):
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("write status of %s %s: its CRD has no status subresource: add it, or set StatusSubresource of the Kind to false: %w",
			s.env.kinds.Set.GVK.Kind, s.state.Key, err)
	}
	return fmt.Errorf("write status of %s %s: %w", s.env.kinds.Set.GVK.Kind, s.state.Key, err)
}

// statusUpdate returns the status to write. It keeps what was not observed in this pass.
func (s *Scope) statusUpdate(failed bool) contract.MachineSetUpdate {
	var u contract.MachineSetUpdate
	if s.pausedCondition != nil {
		u.Conditions = []metav1.Condition{*s.pausedCondition}
	}
	if s.paused {
		return u
	}
	facts := statusFacts{
		Set: &s.state, Machines: s.states(), Unobserved: !s.counted, TemplateLabels: machineLabels(&s.state), Now: s.now,
	}
	if s.selector != nil && s.trouble.selector == nil {
		facts.Selector = s.selector.String()
	}
	facts.Missing, facts.Blocked = s.missing()
	facts.Unclaimed = texts(s.trouble.claim)
	if s.trouble.selector != nil {
		facts.Unclaimed = append(facts.Unclaimed, s.trouble.selector.Error())
	}
	if facts.Kept = texts(s.trouble.deletion); len(facts.Kept) > 0 {
		facts.KeptCause = ReasonMachineDeletionFailed
	}
	if s.decision.Surplus > 0 && len(s.decision.Held) > 0 {
		facts.Kept, facts.KeptCause = append(blockedBy(s.decision.Held), facts.Kept...), s.decision.Held[0].Reason
	}
	for _, reason := range []string{ReasonMachinesNotShown, ReasonMachinesNotRestored} {
		if s.held(reason) {
			facts.Cause = reason
		}
	}
	if facts.Unobserved && !failed {
		return u
	}
	conditions, again := facts.conditions()
	s.requeue(again)
	u.Conditions = append(u.Conditions, conditions...)
	if facts.Unobserved {
		return u
	}
	c, again := facts.count()
	s.requeue(again)
	if s.trouble.selector == nil {
		u.SelectorText = contract.SetTo(facts.Selector)
	}
	u.ObservedReplicas, u.ReadyReplicas = contract.SetTo(c.Replicas), contract.SetTo(c.Ready)
	u.AvailableReplicas, u.UpToDateReplicas = contract.SetTo(c.Available), contract.SetTo(c.UpToDate)
	u.NodeReadyReplicas, u.NodeAvailableReplicas = contract.SetTo(c.NodeReady), contract.SetTo(c.NodeAvailable)
	u.FullyLabeledReplicas = contract.SetTo(c.FullyLabeled)
	return u
}

// texts are the texts of errors, each of them short enough to leave room for others.
func texts(errs []error) []string {
	all := make([]string, 0, len(errs))
	for _, err := range errs {
		all = append(all, pass.Bounded(err.Error(), pass.MaxNoteLength))
	}
	return all
}
