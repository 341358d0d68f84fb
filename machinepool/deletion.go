package machinepool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// over reports whether a limit is reached that counts from began, and otherwise requests a pass for when it is. What has not begun begins
// now, and a limit of zero and below is never reached.
func (p *Scope) over(began time.Time, limit time.Duration) bool {
	if limit <= 0 {
		return false
	}
	if began.IsZero() {
		began = p.Now
	}
	left := began.Add(limit).Sub(p.Now)
	if left > 0 {
		p.Requeue(max(left, time.Second))
	}
	return left <= 0
}

// drainAll drains the Nodes before the instances are deleted. The start is recorded before the first Node is cordoned, so that the limit
// counts from there in every process. A pool must not wait for ever for a cluster that is gone without a record of that; but a long drain
// is not given up because the connection or the process is restarted.
func (p *Scope) drainAll(ctx context.Context) (bool, error) {
	started, limit := p.deletion.Stages[contract.StageDrain].Start, p.State.Template.NodeDrainTimeout.Or(0)
	unreadSince, unreadLimit := p.mem().nodesUnread, p.env.unreadLimit
	switch {
	case !p.wantsDrain():
		p.mem().release(nil)
		return true, nil
	case started.IsZero():
		p.begin(contract.StageDrain)
		p.Wait(contract.ReasonDrainingNode, "Drain not completed yet")
		return false, nil
	case p.over(started, limit), !p.nodesKnown && p.over(unreadSince, unreadLimit):
		p.warn(EventDrainFailed, "The Nodes were not drained in time: the deletion goes on without")
		p.mem().release(nil)
		return true, nil
	case !p.nodesKnown:
		p.Wait(contract.ReasonDrainingNode, "The Nodes cannot be read: "+p.unread.Message)
		return false, nil
	}
	going := slices.DeleteFunc(p.match.all(), func(node *corev1.Node) bool { return p.wasDrained(node) || node.DeletionTimestamp != nil })
	left, err := p.drain(ctx, going)
	switch {
	case left > 0:
		p.Wait(contract.ReasonDrainingNode, fmt.Sprintf("Drain not completed yet (started at %s): %d Nodes are left%s",
			started.UTC().Format(time.RFC3339), left, p.waiting))
	case p.missed == "":
		return true, err
	case p.over(unreadSince, unreadLimit):
		p.warn(EventDrainFailed, "%s: the deletion goes on without their drain", p.missed)
		return true, err
	default:
		p.Wait(contract.ReasonDrainingNode, p.missed)
	}
	return false, err
}

// wantsDrain reports whether the Nodes are drained before the instances are deleted: not when the instances are gone, are being deleted or
// belong to another controller, and not when the cluster is being deleted too. Where Machines represent the instances, the Machine
// controller has drained their Nodes, and Nodes are left only of instances that never had a Machine.
func (p *Scope) wantsDrain() bool {
	if p.isExcluded() || !p.nodesMatter() || (p.nodesKnown && p.workload.Drainer == nil) {
		return false
	}
	return !(p.ledByMachines() && p.hasNoNodes()) && !p.infrastructure.Foreign && p.instancesStay()
}

// instancesStay reports whether nothing has ended the instances yet, as far as is known.
func (p *Scope) instancesStay() bool {
	e := p.infrastructure
	return (e.Presence == external.Present || e.Presence == external.Unread) && !engine.IsGoing(e, p.mem().requested)
}

// nodesMatter reports whether the Nodes outlive the pool: not when their cluster is gone or is being deleted.
func (p *Scope) nodesMatter() bool {
	return p.Cluster.Presence != external.Absent && p.Cluster.State.Deleting.IsZero()
}

func (p *Scope) deleteInfrastructure(ctx context.Context) (bool, error) {
	lost := ""
	if p.State.InfrastructureReady.Or(false) {
		lost = "instances were made for this MachinePool and cannot be found without it"
	}
	return p.deleteReferenced(ctx, p.infrastructure, lost, contract.ReasonWaitingForInfrastructureDeletion)
}

func (p *Scope) deleteBootstrap(ctx context.Context) (bool, error) {
	return p.deleteReferenced(ctx, p.bootstrap, "", contract.ReasonWaitingForBootstrapDeletion)
}

// deleteReferenced deletes a referenced object. lost is that of engine.Removal.
func (p *Scope) deleteReferenced(ctx context.Context, e external.Object, lost, reason string) (bool, error) {
	return p.Remove(ctx, e, engine.Removal{Reason: reason, Lost: lost, Deletions: &p.mem().requested, Confirm: p.ConfirmAbsent})
}

// deleteAllNodes deletes the recorded Nodes when the instances are gone. Its limit counts from then on, not from the deletion of the pool:
// instances take minutes to go. A Node that joined late is recorded first.
func (p *Scope) deleteAllNodes(ctx context.Context) (bool, error) {
	if !p.nodesMatter() || p.hasNoNodes() || p.infrastructure.Foreign { // another controller's instances stay, and their Nodes with them
		return true, nil
	}
	limit := p.State.Template.NodeDeletionTimeout.Or(DefaultNodeDeletionTimeout)
	started := p.deletion.Stages[contract.StageDeleteNode].Start
	if started.IsZero() {
		p.begin(contract.StageDeleteNode)
	}
	over := p.over(started, limit)
	if p.nodesKnown {
		p.deleteRecordedNodes(ctx)
	} else {
		p.Wait(contract.ReasonDeletingNode, "The Nodes cannot be read: "+p.unread.Message)
		over = p.over(p.mem().nodesUnread, limit) && over
	}
	if over {
		p.warn(EventNodeDeletionFailed, "Nodes of the pool were not deleted within %s: the deletion goes on without", limit)
	}
	return over, nil
}

// deleteRecordedNodes deletes the Nodes of the pool that the stored status names with their UIDs.
func (p *Scope) deleteRecordedNodes(ctx context.Context) {
	recorded := sets.New(p.State.Nodes...)
	nodes := slices.DeleteFunc(p.match.all(), func(node *corev1.Node) bool { return !recorded.Has(refOf(node)) })
	names := mapped(nodes, (*corev1.Node).GetName)
	p.Wait(contract.ReasonDeletingNode, strings.TrimSuffix("Waiting for Nodes to be deleted: "+engine.Named(names), ": "))
	if len(nodes) == 0 && p.missed != "" {
		p.Wait(contract.ReasonDeletingNode, p.missed)
	}
	if err := p.deleteNodes(ctx, nodes); err != nil {
		p.Wait(contract.ReasonDeletingNode, err.Error())
		p.Requeue(engine.ConflictRetry)
	}
}

// hasNoNodes reports whether the pool has no Nodes. While Nodes cannot be read, a pool with recorded Nodes or instances may have some.
func (p *Scope) hasNoNodes() bool {
	if p.nodesKnown {
		return len(p.match.all()) == 0 && p.missed == ""
	}
	return len(p.State.Nodes) == 0 && len(p.State.ProviderIDs) == 0
}

// begin records that a stage of the deletion began.
func (p *Scope) begin(stage string) {
	p.deletion.Begin(stage, p.Now)
	p.recordDeletion()
}

// recordDeletion decides what the pool stores of its deletion: nothing while it is not being deleted, and nothing of another deletion,
// which comes from a backup that was made during one.
func (p *Scope) recordDeletion() {
	for key, to := range p.deletion.Changes(p.State.Annotations) {
		p.ChangeAnnotation(key, to)
	}
}
