package machineset

import (
	"context"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// statusStep sets the status. It leaves alone what this pass has not read.
func statusStep(_ context.Context, s *Scope) (pass.Result, error) {
	if s.Paused() || s.waiting || !s.counted {
		return pass.Result{}, nil
	}
	facts := s.statusFacts()
	conditions, changes := facts.conditions()
	s.Assert(conditions...)
	c, counts := facts.count()
	u := &s.Update
	if s.trouble.selector == nil {
		u.SelectorText = contract.SetTo(facts.Selector)
	}
	u.ObservedReplicas, u.ReadyReplicas = contract.SetTo(c.Replicas), contract.SetTo(c.Ready)
	u.AvailableReplicas, u.UpToDateReplicas = contract.SetTo(c.Available), contract.SetTo(c.UpToDate)
	u.NodeReadyReplicas, u.NodeAvailableReplicas = contract.SetTo(c.NodeReady), contract.SetTo(c.NodeAvailable)
	u.FullyLabeledReplicas = contract.SetTo(c.FullyLabeled)
	return pass.Result{RequeueAfter: pass.Soonest(changes, counts)}, nil
}

// statusFacts are what this pass has found out.
func (s *Scope) statusFacts() statusFacts {
	machines, _ := s.Machines()
	facts := statusFacts{Set: &s.State, Machines: machines, TemplateLabels: machineLabels(&s.State), Now: s.Now}
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
	return facts
}

// texts are the texts of errors, each of them short enough to leave room for others.
func texts(errs []error) []string {
	all := make([]string, 0, len(errs))
	for _, err := range errs {
		all = append(all, pass.Bounded(err.Error(), pass.MaxNoteLength))
	}
	return all
}
