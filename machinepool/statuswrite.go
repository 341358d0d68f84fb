package machinepool

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// flush writes the pool at the end of a pass.
func flush(ctx context.Context, p *Scope, failed error) error {
	return p.Flush(ctx, engine.Writing{Observes: failed == nil && !p.Paused(), Problems: problems()})
}

// statusStep sets counters, phase and conditions.
func statusStep(_ context.Context, p *Scope) (Result, error) {
	if _, staged := engine.Find(p.Asserted, contract.ConditionDeleting); !staged && !p.Paused() {
		p.assertDeleting()
	}
	if p.observed {
		p.sum()
	}
	return Result{}, nil
}

// sum sets counters, phase and conditions.
func (p *Scope) sum() {
	engine.Set(&p.State.SelectorText, selector(&p.State), &p.Update.SelectorText)
	facts := p.statusFacts()
	facts.Failed = p.sumFailure()
	decision := facts.phase()
	engine.Set(&p.State.Phase, string(decision.Phase), &p.Update.Phase)
	p.Assert(facts.conditions()...)
	p.sparesUnread()
}

// sparesUnread leaves conditions as they are for a while when the objects that they are about cannot be read any more: when a process
// starts nothing is, and connections come back.
func (p *Scope) sparesUnread() {
	read := map[string]bool{
		contract.ConditionInfrastructureReady: p.infrastructure.Usable(), contract.ConditionBootstrapConfigReady: p.bootstrap.Usable(),
	}
	reasons := []string{
		contract.ReasonConnectionDown, contract.ReasonInspectionFailed, contract.ReasonInternalError, external.ReasonCacheNotSynced,
	}
	isUnread := func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionUnknown && slices.Contains(reasons, c.Reason) && !read[c.Type]
	}
	p.SpareUnread(isUnread, &p.mem().unread, p.env.options.ConnectionGrace)
}

// sumFailure sets the failure that is reported now, and reports whether there is one. It ends when no object reports one any more; while
// an object cannot be read, an earlier failure stays.
func (p *Scope) sumFailure() bool {
	f, unread := p.failure, slices.Contains([]external.Presence{p.bootstrap.Presence, p.infrastructure.Presence}, external.Unread)
	if f == (engine.Failure{}) && unread {
		f = engine.Failure{Reason: p.State.FailureReason, Message: p.State.FailureMessage}
	}
	engine.Set(&p.State.FailureReason, f.Reason, &p.Update.FailureReason)
	engine.Set(&p.State.FailureMessage, f.Message, &p.Update.FailureMessage)
	return f != (engine.Failure{})
}

// statusFacts counts, and sets the counters.
func (p *Scope) statusFacts() statusFacts {
	f := statusFacts{
		Pool: &p.State, Desired: p.State.Replicas,
		Listed: int32(len(instanceIDs(p.State.ProviderIDs, p.env.options.Matching))), //nolint:gosec // so many fit into memory
		Unread: p.unread, Known: p.nodesKnown, Match: p.match, HasNodes: len(p.State.Nodes) > 0,
	}
	if !f.Desired.Found() && p.State.ReplicasManagedElsewhere() { // what the other component has is what it wants
		f.Desired = p.State.ObservedReplicas
		if p.infrastructure.Usable() {
			f.Desired = contract.Some(f.actual())
		}
	}
	if p.nodesKnown {
		p.countNodes(&f)
	}
	if p.ledByMachines() {
		f.Known = f.Known && p.machines != nil
		if p.machines != nil {
			f.Counts, f.Unhealthy = countMachines(p.machines.own, p.match.Nodes, p.State.Template.Version), p.machines.unhealthy()
			f.Foreign = p.machines.foreign
		}
	}
	if f.Known {
		engine.SetOpt(&p.State.ReadyReplicas, f.Counts.Ready, &p.Update.ReadyReplicas)
		engine.SetOpt(&p.State.AvailableReplicas, f.Counts.Available, &p.Update.AvailableReplicas)
		engine.SetOpt(&p.State.UpToDateReplicas, f.Counts.UpToDate, &p.Update.UpToDateReplicas)
	}
	return f
}

// countNodes counts by Nodes, and records them.
func (p *Scope) countNodes(f *statusFacts) {
	c := countNodes(p.match.Nodes, p.State.Template.MinReady.Or(0), p.State.Template.Version, p.Now)
	p.Requeue(c.Again)
	f.Counts, f.HasNodes = c, len(p.match.Nodes) > 0
	engine.SetOpt(&p.State.NodeReadyReplicas, c.Ready, &p.Update.NodeReadyReplicas)
	engine.SetOpt(&p.State.NodeAvailableReplicas, c.Available, &p.Update.NodeAvailableReplicas)
	engine.SetOpt(&p.State.UnavailableReplicas, max(f.actual()-c.Available, 0), &p.Update.UnavailableReplicas)
	if refs := p.match.refs(); !slices.Equal(refs, p.State.Nodes) {
		p.Update.Nodes = contract.SetTo(refs)
	}
}

// Reasons of the events that the reconciler records on a pool.
const (
	// EventNodeDrained: a Node was drained because its instance leaves.
	EventNodeDrained = "SuccessfulDrainNode"
	// EventNodeUncordoned: others make a Node schedulable again during its drain.
	EventNodeUncordoned = "NodeUncordoned"
	// EventVolumesLeft: volumes were not detached in time.
	EventVolumesLeft = "NodeVolumesLeftAttached"
	// EventNodeDeleted: a Node was deleted because its instance has left.
	EventNodeDeleted = "SuccessfulDeleteNode"
	// EventMachinesCreated and EventMachineDeleted are about Machines that stand for instances.
	EventMachinesCreated = "SuccessfulCreate"
	EventMachineDeleted  = "SuccessfulDelete"
	// EventDrainFailed and EventNodeDeletionFailed: a deletion goes on without.
	EventDrainFailed        = "FailedDrainNode"
	EventNodeDeletionFailed = "FailedDeleteNode"
)

// tell records an event about what the pool has done.
func (p *Scope) tell(reason, note string, args ...any) {
	p.Eventf(corev1.EventTypeNormal, reason, engine.ActionReconcile, note, args...)
}

// warn records an event about what the pool could not do.
func (p *Scope) warn(reason, note string, args ...any) {
	p.Eventf(corev1.EventTypeWarning, reason, engine.ActionReconcile, note, args...)
}
