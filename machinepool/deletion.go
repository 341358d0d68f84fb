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

// over reports whether a limit that counts from began is reached, and otherwise requests a pass for that time. A limit of zero or less is
// never reached.
func (p *Scope) over(began time.Time, limit time.Duration) bool {
	left := began.Add(limit).Sub(p.Now)
	if limit > 0 && left > 0 {
		p.Requeue(max(left, time.Second))
	}
	return limit > 0 && left <= 0
}

// since returns when a stage of the deletion began, and records its start if there is none.
func (p *Scope) since(stage string) (at time.Time, begins bool) {
	if begins = p.deletion.Begin(stage, p.Now); begins {
		p.recordDeletion()
	}
	return p.deletion.Stages[stage].Start, begins
}

// recordDeletion sets the record of the deletion. It removes it when the pool is not being deleted, and removes the record of another
// deletion, which comes from a backup.
func (p *Scope) recordDeletion() {
	p.ChangeMetadata(contract.MetadataUpdate{Annotations: p.deletion.Changes(p.State.Annotations)})
}

// drainAll drains the Nodes before the instances are deleted. The start is recorded before the first Node is cordoned, so that every
// process counts the limit from there. A pool must not wait forever for a cluster that is gone without a record of that, or for Nodes whose
// existence is unknown; but a restart of the connection or the process must not end a long drain.
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
// belong to another controller, and not when the cluster is being deleted too. If Machines represent the instances, the Machine controller
// has drained their Nodes, and only Nodes of instances that never had a Machine are left.
func (p *Scope) wantsDrain() bool {
	return !p.excludes(contract.ExcludeDrain) && (!p.nodesKnown || p.workload.Drainer != nil) && p.hasNodes() && p.nodesMatter() &&
		!p.infrastructure.Foreign && p.instancesStay()
}

// instancesStay reports whether the instances are not known to be gone or being deleted.
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

// deleteReferenced deletes a referenced object; see engine.Removal for lost.
func (p *Scope) deleteReferenced(ctx context.Context, e external.Object, lost, reason string) (bool, error) {
	return p.Remove(ctx, e, engine.Removal{Reason: reason, Lost: lost, Deletions: &p.mem().requested, Confirm: p.ConfirmAbsent})
}

// deleteAllNodes deletes the recorded Nodes after the instances are gone. Its limit counts from then, not from the deletion of the pool,
// because the deletion of instances takes minutes. A Node that joined late is recorded first.
func (p *Scope) deleteAllNodes(ctx context.Context) (bool, error) {
	if !p.nodesMatter() || !p.hasNodes() || p.infrastructure.Foreign { // another controller's instances and their Nodes are retained
		return true, nil
	}
	limit := p.State.Template.NodeDeletionTimeout.Or(defaultNodeDeletionTimeout)
	started, _ := p.since(contract.StageDeleteNode)
	over := p.over(started, limit)
	if !p.nodesKnown {
		over = p.over(p.mem().nodesUnread, limit) && over
	}
	p.deleteRecordedNodes(ctx)
	if over {
		p.warn(eventNodeDeletionFailed, "Nodes of the pool were not deleted within %s: the deletion goes on without", limit)
	}
	return over, nil
}

// deleteRecordedNodes deletes the pool's Nodes that are in the stored status with their UIDs.
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

// hasNodes reports whether the pool has Nodes, or may have some that are unknown now.
func (p *Scope) hasNodes() bool { return len(p.instances.free()) > 0 || p.missed != "" }
