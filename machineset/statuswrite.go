package machineset

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
)

// writeStatus writes the status in one request, when it says something new and the last write is not a moment ago.
func (p *pass) writeStatus(ctx context.Context, failed bool) error {
	if p.waiting || (failed && p.paused) {
		return nil
	}
	generation := int64(0)
	if p.env.kinds.Set.StatusSubresource {
		generation = p.set.GetGeneration()
	}
	u := p.statusUpdate(failed)
	u.Conditions = contract.ChangedConditions(p.state.Conditions, u.Conditions, generation, p.now)
	if !failed && p.counted && generation != 0 { // else it was not looked at as a whole
		u.ObservedGeneration = contract.SetTo(generation)
	}
	contents, err := patch.Apply(p.env.kinds.Set, p.set, u)
	if err != nil {
		return err
	}
	document := contents.Status()
	if !p.env.kinds.Set.StatusSubresource {
		document = contents.Whole()
	}
	if document.Empty() {
		return nil
	}
	mem := p.mem()
	if due := mem.statusAt.Add(p.env.options.StatusDelay); p.env.options.StatusDelay > 0 && p.now.Before(due) {
		p.requeue(due.Sub(p.now))
		return nil
	}
	written := newObject(p.env.kinds.Set)
	if err := p.env.writer.Send(ctx, p.set, written, document, p.env.kinds.Set.StatusSubresource, true); err != nil {
		return p.statusRefused(err)
	}
	mem.statusAt = p.now
	return nil
}

// statusRefused adds to the error of a status write what a person can do; it returns nil when the set is gone.
func (p *pass) statusRefused(err error) error {
	switch {
	case external.SaysGone(err):
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("write status of %s %s: its CRD has no status subresource: add it, or set StatusSubresource of the Kind to false: %w",
			p.env.kinds.Set.GVK.Kind, p.state.Key, err)
	}
	return fmt.Errorf("write status of %s %s: %w", p.env.kinds.Set.GVK.Kind, p.state.Key, err)
}

// statusUpdate returns the status to write. It keeps what was not observed in this pass.
func (p *pass) statusUpdate(failed bool) contract.MachineSetUpdate {
	var u contract.MachineSetUpdate
	if p.pausedCondition != nil {
		u.Conditions = []metav1.Condition{*p.pausedCondition}
	}
	if p.paused {
		return u
	}
	facts := statusFacts{
		Set: &p.state, Machines: p.states(), Unobserved: !p.counted, TemplateLabels: machineLabels(&p.state), Now: p.now,
	}
	if p.selector != nil && p.trouble.selector == nil {
		facts.Selector = p.selector.String()
	}
	facts.Missing, facts.Blocked = p.missing()
	facts.Unclaimed = texts(p.trouble.claim)
	if p.trouble.selector != nil {
		facts.Unclaimed = append(facts.Unclaimed, p.trouble.selector.Error())
	}
	if facts.Kept = texts(p.trouble.deletion); len(facts.Kept) > 0 {
		facts.KeptCause = ReasonMachineDeletionFailed
	}
	if p.decision.Surplus > 0 && len(p.decision.Held) > 0 {
		facts.Kept, facts.KeptCause = append(blockedBy(p.decision.Held), facts.Kept...), p.decision.Held[0].Reason
	}
	for _, reason := range []string{ReasonMachinesNotShown, ReasonMachinesNotRestored} {
		if p.held(reason) {
			facts.Cause = reason
		}
	}
	if facts.Unobserved && !failed {
		return u
	}
	conditions, again := facts.conditions()
	p.requeue(again)
	u.Conditions = append(u.Conditions, conditions...)
	if facts.Unobserved {
		return u
	}
	c, again := facts.count()
	p.requeue(again)
	if p.trouble.selector == nil {
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
		text := err.Error()
		if len(text) > maxNoteLength {
			text = strings.ToValidUTF8(text[:maxNoteLength], "") + " ..."
		}
		all = append(all, text)
	}
	return all
}
