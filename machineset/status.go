package machineset

import (
	"cmp"
	"context"
	"slices"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// holds returns the holds of the set for the condition ScalingUp. If the set lacks no Machine, the disabled creation and unread objects are
// left out, because each new process starts with them.
func (s *Scope) holds() []scale.Hold {
	enough := len(s.machines.Own) >= int(s.State.Replicas.Or(0))
	small := []string{ReasonCreationDisabled, engine.ReasonTemplateUnread, ReasonControlPlaneUnread, ReasonPreflightFailed}
	all := slices.DeleteFunc(slices.Clone(s.machines.Holds), func(h scale.Hold) bool { return enough && slices.Contains(small, h.Reason) })
	slices.SortFunc(all, func(a, b scale.Hold) int { return cmp.Compare(a.Message, b.Message) })
	if refused := s.machines.Refused(); refused != "" {
		all = append(all, scale.Hold{Message: refusedCreation(refused)})
	}
	return slices.Compact(all)
}

// refusedCreation returns the message about the failed last creation of a Machine.
func refusedCreation(text string) string {
	return "the last creation of a Machine has failed: " + contract.SteadyText(text)
}

// statusStep sets the status. It does not change fields that this pass has not read.
func statusStep(_ context.Context, s *Scope) (Result, error) {
	if s.Paused() || s.machines.Waiting || !s.machines.Known {
		return Result{}, nil
	}
	summary := s.summary()
	s.Assert(summary.Conditions()...)
	c, again := summary.Count()
	u := &s.Update
	if !s.machines.IsHeld(ReasonSelectorUnreadable) {
		u.SelectorText = contract.SetTo(s.machines.Selector.String())
	}
	u.ObservedReplicas, u.ReadyReplicas = contract.SetTo(c.Replicas), contract.SetTo(c.Ready)
	u.AvailableReplicas, u.UpToDateReplicas = contract.SetTo(c.Available), contract.SetTo(c.UpToDate)
	u.NodeReadyReplicas, u.NodeAvailableReplicas = contract.SetTo(c.NodeReady), contract.SetTo(c.NodeAvailable)
	u.FullyLabeledReplicas = contract.SetTo(c.FullyLabeled)
	return Result{RequeueAfter: again}, nil
}

// summary returns the summary of this pass.
func (s *Scope) summary() children.Summary {
	machines, _ := s.Machines()
	facts := children.Summary{
		Desired: s.State.Replicas, Deleting: !s.State.Deleting.IsZero(),
		MinReady: s.State.Template.MinReady.Or(0), Machines: machines, TemplateLabels: s.State.Template.Labels, Holds: s.holds(), Now: s.Now,
	}
	if facts.Kept = s.machines.Undeleted; len(facts.Kept) > 0 {
		facts.KeptCause = children.ReasonMachineDeletionFailed
	}
	if s.orderErr != nil {
		facts.Kept, facts.KeptCause = append([]string{s.orderErr.Error()}, facts.Kept...), ReasonDeletionOrderUnreadable
	}
	facts.LeftAs = "reserved names, of which a " + s.env.kinds.Machine.GVK.Kind + " may be made yet"
	for _, e := range s.machines.Ledger.Pending {
		facts.Left = append(facts.Left, e.Name)
	}
	return facts
}
