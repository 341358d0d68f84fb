package machineset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/patch"
)

// writeStatus writes the status in one request, when it says something new and the last write is not a moment ago.
func (p *pass) writeStatus(ctx context.Context, failed bool) error {
	if p.waiting || (failed && p.alone) {
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
	err = p.env.writer.Send(ctx, p.set, written, document, p.env.kinds.Set.StatusSubresource, true)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", p.env.kinds.Set.GVK.Kind, p.state.Key, err)
	}
	mem.statusAt = p.now
	return nil
}

// statusUpdate is what the status shall say. What was not observed in this pass is not counted.
func (p *pass) statusUpdate(failed bool) contract.MachineSetUpdate {
	var u contract.MachineSetUpdate
	if p.paused != nil {
		u.Conditions = []metav1.Condition{*p.paused}
	}
	if p.alone {
		return u
	}
	facts := statusFacts{
		Set: &p.state, Machines: p.states(), Unobserved: !p.counted, TemplateLabels: machineLabels(&p.state), Now: p.now,
	}
	if p.selector != nil {
		facts.Selector = p.selector.String()
	}
	facts.Missing, facts.Blocked = p.missing()
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
	u.SelectorText = contract.SetTo(facts.Selector)
	u.ObservedReplicas, u.ReadyReplicas = contract.SetTo(c.Replicas), contract.SetTo(c.Ready)
	u.AvailableReplicas, u.UpToDateReplicas = contract.SetTo(c.Available), contract.SetTo(c.UpToDate)
	u.NodeReadyReplicas, u.NodeAvailableReplicas = contract.SetTo(c.NodeReady), contract.SetTo(c.NodeAvailable)
	u.FullyLabeledReplicas = contract.SetTo(c.FullyLabeled)
	return u
}
