package machinepool

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/phases"
)

// flush writes what the pass has decided: metadata and spec first, then status on top of what the server returned. It writes nothing
// that is there already.
func (p *pass) flush(ctx context.Context, failed bool) error {
	stored := p.state
	if len(p.failures) == 2 { // otherwise the pass did not come to look at the pool
		p.sum()
	}
	err := p.writeMain(ctx, p.main)
	if p.finished && external.SaysGone(err) {
		err = nil
	}
	if err != nil || (p.finished && len(p.pool.GetFinalizers()) == 0) {
		return err
	}
	return p.writeStatus(ctx, &stored, failed)
}

// sum puts together what the status says.
func (p *pass) sum() {
	if text := selector(&p.state); p.env.tellsSelector && text != p.state.SelectorText {
		p.status.SelectorText = contract.SetTo(text)
	}
	facts := p.statusFacts()
	facts.Failed = p.sumFailure()
	decision := facts.phase()
	if string(decision.Phase) != p.state.Phase {
		p.status.Phase = contract.SetTo(string(decision.Phase))
	}
	for _, c := range facts.conditions() {
		p.assert(c)
	}
	p.sparesUnread()
	p.unhidden = p.unhidden || p.state.Phase == "" || decision.Phase == phases.Running
}

// sparesUnread leaves conditions as they are for a while when what they are about cannot be read any more: at the start of a process
// nothing is, and connections come back.
func (p *pass) sparesUnread() {
	mem, grace := p.mem(), p.env.options.ConnectionGrace
	read := map[string]bool{ConditionInfrastructureReady: p.infraRead, ConditionBootstrapConfigReady: p.bootstrapRead}
	spared := func(c metav1.Condition) bool {
		said, found := findCondition(p.state.Conditions, c.Type)
		return found && said.Status != metav1.ConditionUnknown && isOnlyUnread(c) && !read[c.Type]
	}
	if !slices.ContainsFunc(p.asserted, spared) {
		mem.unread = time.Time{}
		return
	}
	if mem.unread.IsZero() {
		mem.unread = p.now
	}
	if left := mem.unread.Add(grace).Sub(p.now); left > 0 {
		p.asserted = slices.DeleteFunc(p.asserted, spared)
		p.requeue(left)
	}
}

// isOnlyUnread reports whether a condition says nothing but that something cannot be read now.
func isOnlyUnread(c metav1.Condition) bool {
	reasons := []string{ReasonConnectionDown, ReasonInspectionFailed, ReasonInternalError, external.ReasonCacheNotSynced}
	return c.Status == metav1.ConditionUnknown && slices.Contains(reasons, c.Reason)
}

// sumFailure records the failure that is reported now, and says whether there is one.
func (p *pass) sumFailure() bool {
	f := decideFailure(failure{p.state.FailureReason, p.state.FailureMessage}, p.failures...)
	if f.Reason != p.state.FailureReason {
		p.status.FailureReason = contract.SetTo(f.Reason)
	}
	if f.Message != p.state.FailureMessage {
		p.status.FailureMessage = contract.SetTo(f.Message)
	}
	return f != (failure{})
}

// statusFacts counts, and sets the counters.
func (p *pass) statusFacts() statusFacts {
	f := statusFacts{
		Desired: p.state.Replicas, Observed: p.replicas, Listed: int32(len(instanceIDs(p.ids, p.env.options.Matching))), //nolint:gosec // at most 10,000
		NodeReady: p.state.NodeReadyReplicas.Or(0), Unread: p.unread, Known: p.nodesKnown, Match: &p.match, Deleting: p.deleting(),
		BootstrapReady: p.bootstrapReady, InfrastructureReady: p.infraReady, HasNodes: len(p.state.Nodes) > 0, ManagedElsewhere: p.managedElsewhere(),
	}
	if p.nodesKnown {
		p.countNodes(&f)
	}
	if p.ledByMachines() {
		f.Known = f.Known && p.machines != nil
		if p.machines != nil {
			f.Counts, f.Unhealthy = countMachines(p.machines.states, p.match.Nodes, p.state.Template.Version), p.machines.unhealthy()
			f.Foreign = p.machines.foreign
		}
	}
	if f.Known {
		p.unhidden = p.unhidden || f.Counts.Ready < p.state.ReadyReplicas.Or(0) || f.Counts.Available < p.state.AvailableReplicas.Or(0)
		setIf(&p.status.ReadyReplicas, p.state.ReadyReplicas, f.Counts.Ready)
		setIf(&p.status.AvailableReplicas, p.state.AvailableReplicas, f.Counts.Available)
		setIf(&p.status.UpToDateReplicas, p.state.UpToDateReplicas, f.Counts.UpToDate)
	}
	return f
}

// countNodes counts by Nodes, and records them.
func (p *pass) countNodes(f *statusFacts) {
	c := countNodes(p.match.Nodes, p.state.Template.MinReady.Or(0), p.state.Template.Version, p.now)
	p.requeue(c.Again)
	f.Counts, f.NodeReady, f.HasNodes = c, c.Ready, len(p.match.Nodes) > 0
	p.unhidden = p.unhidden || c.Ready < p.state.NodeReadyReplicas.Or(0)
	setIf(&p.status.NodeReadyReplicas, p.state.NodeReadyReplicas, c.Ready)
	setIf(&p.status.NodeAvailableReplicas, p.state.NodeAvailableReplicas, c.Available)
	setIf(&p.status.UnavailableReplicas, p.state.UnavailableReplicas, max(f.actual()-c.Available, 0))
	if refs := p.match.refs(); !slices.Equal(refs, p.state.Nodes) {
		p.status.Nodes = contract.SetTo(refs)
	}
}

// writeStatus writes the status in one request, when it says something new and may not wait, or the last write is not a moment ago.
func (p *pass) writeStatus(ctx context.Context, stored *contract.MachinePoolState, failed bool) error {
	generation := int64(0)
	if p.env.kinds.Pool.StatusSubresource {
		generation = p.pool.GetGeneration()
	}
	u := p.status
	u.Conditions = changedConditions(stored.Conditions, p.asserted, generation, p.now)
	if !failed && !p.paused && generation != 0 && generation != stored.ObservedGeneration {
		u.ObservedGeneration = contract.SetTo(generation)
	}
	if changesNothing(u) || p.waitsToWrite() {
		return nil
	}
	contents, err := patch.Apply(p.env.kinds.Pool, p.pool, u)
	if err != nil {
		return err
	}
	document := contents.Status()
	if !p.env.kinds.Pool.StatusSubresource {
		document = contents.Whole()
	}
	if document.Empty() {
		return nil
	}
	written := newObject(p.env.kinds.Pool)
	err = p.env.writer.Send(ctx, p.pool, written, document, p.env.kinds.Pool.StatusSubresource, true)
	if external.SaysGone(err) {
		return nil
	}
	if apierrors.IsNotFound(err) { // there is no such place: to be silent would be to work without ever saying anything
		return fmt.Errorf("write status of %s %s: %w: if its CustomResourceDefinition has no status subresource, add one, "+
			"or set StatusSubresource of the kind to false", p.env.kinds.Pool.GVK.Kind, p.state.Key, err)
	}
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", p.env.kinds.Pool.GVK.Kind, p.state.Key, err)
	}
	p.mem().statusAt = p.now
	p.tellConditions(stored.Conditions, u.Conditions)
	if refs, set := u.Nodes.Value(); set {
		p.tellNodes(stored.Nodes, refs)
	}
	return nil
}

// waitsToWrite reports whether a status has to wait, because the last one was written a moment ago and this one says nothing urgent.
func (p *pass) waitsToWrite() bool {
	delay := p.env.options.StatusDelay
	due := p.mem().statusAt.Add(delay)
	if delay <= 0 || p.unhidden || !p.now.Before(due) {
		return false
	}
	p.requeue(due.Sub(p.now))
	return true
}

// changesNothing spares a pass that has nothing to say the copy of the pool.
func changesNothing(u contract.MachinePoolUpdate) bool {
	if len(u.Conditions) == 0 {
		u.Conditions = nil
	}
	return reflect.ValueOf(&u).Elem().IsZero()
}
