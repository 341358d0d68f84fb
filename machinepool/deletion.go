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
	"github.com/machinist-dev/machinist/noderef"
)

// over reports whether a limit is reached that counts from began, and otherwise requests a pass for when it is. A limit of zero and below
// is never reached.
func (p *Scope) over(began time.Time, limit time.Duration) bool {
	left := began.Add(limit).Sub(p.Now)
	if limit > 0 && left > 0 {
		p.Requeue(max(left, time.Second))
	}
	return limit > 0 && left <= 0
}

// since returns when a stage of the deletion began, and records that it begins now if it has not.
func (p *Scope) since(stage string) (at time.Time, begins bool) {
	if begins = p.deletion.Begin(stage, p.Now); begins {
		p.recordDeletion()
	}
	return p.deletion.Stages[stage].Start, begins
}

// recordDeletion decides what the pool stores of its deletion: nothing while it is not being deleted, and nothing of another deletion,
// which comes from a backup that was made during one.
func (p *Scope) recordDeletion() {
	for key, to := range p.deletion.Changes(p.State.Annotations) {
		p.ChangeAnnotation(key, to)
	}
}

// drainAll drains the Nodes before the instances are deleted. The start is recorded before the first Node is cordoned, so that the limit
// counts from there in every process. A pool must not wait for ever for a cluster that is gone without a record of that, or for Nodes of
// which it is not known whether they are gone; but a long drain is not given up because the connection or the process is restarted.
func (p *Scope) drainAll(ctx context.Context) (bool, error) {
	if !p.wantsDrain() {
		p.mem().release(nil)
		return true, nil
	}
	started, begins := p.since(contract.StageDrain)
	switch {
	case begins:
		p.Wait(contract.ReasonDrainingNode, "Drain not completed yet")
		return false, nil
	case p.over(started, p.State.Template.NodeDrainTimeout.Or(0)):
		p.warn(EventDrainFailed, "The Nodes were not drained in time: the deletion goes on without")
		p.mem().release(nil)
		return true, nil
	}
	left, err := 0, error(nil)
	if p.nodesKnown {
		left, err = p.drain(ctx, slices.DeleteFunc(p.instances.free(), func(node *corev1.Node) bool {
			return p.wasDrained(node) || node.DeletionTimestamp != nil
		}))
	}
	switch {
	case left > 0:
		p.Wait(contract.ReasonDrainingNode, fmt.Sprintf("Drain not completed yet (started at %s): %d Nodes are left%s",
			started.UTC().Format(time.RFC3339), left, p.waiting))
		return false, err
	case p.missed == "":
		return true, err
	case p.over(p.mem().nodesUnread, p.env.unreadLimit):
		p.warn(EventDrainFailed, "%s: the deletion goes on without their drain", p.missed)
		p.mem().release(nil)
		return true, err
	}
	p.Wait(contract.ReasonDrainingNode, p.missed)
	return false, err
}

// wantsDrain reports whether the Nodes are drained before the instances are deleted: not when the instances are gone, are being deleted or
// belong to another controller, and not when the cluster is being deleted too. Where Machines represent the instances, the Machine
// controller has drained their Nodes, and Nodes are left only of instances that never had a Machine.
func (p *Scope) wantsDrain() bool {
	return !p.excludes(contract.ExcludeDrain) && (!p.nodesKnown || p.workload.Drainer != nil) && p.hasNodes() && p.nodesMatter() &&
		!p.infrastructure.Foreign && p.instancesStay()
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
	if !p.nodesMatter() || !p.hasNodes() || p.infrastructure.Foreign { // another controller's instances stay, and their Nodes with them
		return true, nil
	}
	limit := p.State.Template.NodeDeletionTimeout.Or(DefaultNodeDeletionTimeout)
	started, _ := p.since(contract.StageDeleteNode)
	over := p.over(started, limit)
	if !p.nodesKnown {
		over = p.over(p.mem().nodesUnread, limit) && over
	}
	p.deleteRecordedNodes(ctx)
	if over {
		p.warn(EventNodeDeletionFailed, "Nodes of the pool were not deleted within %s: the deletion goes on without", limit)
	}
	return over, nil
}

// deleteRecordedNodes deletes the Nodes of the pool that the stored status names with their UIDs.
func (p *Scope) deleteRecordedNodes(ctx context.Context) {
	recorded := sets.New(p.State.Nodes...)
	nodes := slices.DeleteFunc(p.instances.free(), func(node *corev1.Node) bool { return !recorded.Has(noderef.RefTo(node)) })
	message := strings.TrimSuffix("Waiting for Nodes to be deleted: "+engine.Named(mapped(nodes, (*corev1.Node).GetName)), ": ")
	if len(nodes) == 0 && p.missed != "" {
		message = p.missed
	}
	if err := p.deleteNodes(ctx, nodes); err != nil {
		message = err.Error()
		p.Requeue(engine.ConflictRetry)
	}
	p.Wait(contract.ReasonDeletingNode, message)
}

// hasNodes reports whether the pool has Nodes, or may have some of which nothing is known now.
func (p *Scope) hasNodes() bool { return len(p.instances.free()) > 0 || p.missed != "" }
