package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// deleteNodeStage deletes the Node when all other objects are gone.
func deleteNodeStage() Stage {
	return Stage{
		Name: StepDeleteNode, Reason: contract.ReasonDeletingNode, Excluded: (*Scope).whyNodeStays, Limit: (*Scope).setNodeDeletionLimit,
		Run: deleteNodePass, done: func(s *Scope) bool { return s.NodesSynced && s.Node.Node == nil }, care: true, nodes: true, ownLimit: true,
		confirm: confirmNodeToDelete, left: EventNodeNotDeleted, failed: EventNodeDeletionFailed, action: actionDeleteNode,
		failure: "error deleting Machine's Node %q: %s: the Machine goes without",
	}
}

// whyNodeStays returns why a Node that may still exist is not deleted, empty when it is: only the recorded Node, with the same UID, is.
func (s *Scope) whyNodeStays() string {
	node, recorded := s.Node.Node, noderef.Ref{Name: s.State.Node.Name, UID: s.State.Node.UID}
	switch {
	case s.decidedCare() == careNone:
		return s.careReason
	case !s.NodesSynced, node != nil && s.Node.Record:
		return ""
	case node != nil && noderef.RefTo(node) != recorded,
		node == s.matched && node != nil && !s.env.options.Matching.MayTouch(node, recorded, s.State.ProviderID):
		return "it is not the Node that was recorded"
	case node != nil:
		return ""
	}
	switch s.Node.Outcome {
	case noderef.Stale:
		return anotherMachines
	case noderef.Claimed:
		return claimed(s.Node, &s.State)
	case noderef.Ambiguous:
		return ambiguous(s.Node, s.State.ProviderID)
	case noderef.NoProviderID:
		return nothingSaysOwn
	case noderef.NotFound, noderef.Unknown, noderef.Matched, noderef.Readopted:
	}
	return ""
}

// confirmNodeToDelete asks the API server before the Node is left: about the Node that the index does not have, and about the
// infrastructure where several Nodes have the provider ID.
func confirmNodeToDelete(ctx context.Context, s *Scope) error {
	err := s.matchSeveral(ctx)
	if err == nil {
		s.confirmNoNode(ctx)
	}
	return err
}

// matchSeveral looks again for the Node where several have the provider ID, when nothing else is left of the instance: then all of them
// are deleted. Without the index nothing is known of the claims of other Machines, and they stay.
func (s *Scope) matchSeveral(ctx context.Context) error {
	if s.Node.Outcome != noderef.Ambiguous || !s.env.indexed {
		return nil
	}
	gone, err := s.confirmInfrastructureGone(ctx)
	if err != nil || !gone && !s.InstanceGone {
		return err
	}
	return s.matchNode(ctx, true)
}

// nodeDeletion is what to do about the Node of a Machine whose infrastructure is gone.
type nodeDeletion uint8

const (
	nodeDelete nodeDeletion = iota
	// nodeDeleteLast: the limit has passed, and this attempt is the last. A limit that began while the Nodes were unread may pass before
	// the first attempt.
	nodeDeleteLast
	nodeWait
	// nodeGiveUp: the Node is being deleted for too long.
	nodeGiveUp
)

// nodeDeletionFacts are what decideNodeDeletion depends on.
type nodeDeletionFacts struct {
	// Started is the time of the first attempt that did not delete the Node at once, Asked the time when the API server accepted one, and
	// Going the deletion timestamp of the Node; zero before. Limit is how long attempts and the wait may take, zero for no limit.
	Started, Asked, Going time.Time
	Limit                 time.Duration
	Now                   time.Time
}

// decideNodeDeletion: after an accepted request the stage only waits, and the wait has a limit.
func decideNodeDeletion(f nodeDeletionFacts) nodeDeletion {
	switch {
	case limitReached(f.Asked, f.Limit, f.Now), limitReached(f.Going, f.Limit, f.Now):
		return nodeGiveUp
	case !f.Asked.IsZero() || !f.Going.IsZero():
		return nodeWait
	case limitReached(f.Started, f.Limit, f.Now):
		return nodeDeleteLast
	}
	return nodeDelete
}

// deleteNodePass makes one attempt at most, and does not wait for its effect.
func deleteNodePass(ctx context.Context, s *Scope) (Result, error) {
	node, limit := s.Node.Node, s.nodeDeletionLimit()
	if s.Node.Record {
		return s.recordFirst(contract.ReasonDeletingNode, "Node "+node.Name+" was matched: recording it first")
	}
	facts := nodeDeletionFacts{Started: s.begins(StepDeleteNode), Limit: limit, Now: s.Now}
	if node.DeletionTimestamp != nil {
		facts.Going = node.DeletionTimestamp.Time
	}
	s.memory.requested.Observe(node.UID, node.ResourceVersion, node.DeletionTimestamp != nil)
	facts.Asked = s.memory.requested[node.UID].At
	switch action := decideNodeDeletion(facts); action {
	case nodeGiveUp:
		s.reportFailed(deleteNodeStage(), notWithin(limit))
		return Result{}, nil
	case nodeWait:
		return s.waitForNode(later(facts.Asked, facts.Going), limit), nil
	case nodeDelete, nodeDeleteLast:
		return s.deleteNode(ctx, facts.Started, limit, action == nodeDeleteLast)
	}
	return Result{}, nil
}

// deleteNode makes one attempt. The Node's own event ends the wait. A failure of the last attempt is final, unless the cluster does not
// answer and no limit is set.
func (s *Scope) deleteNode(ctx context.Context, started time.Time, limit time.Duration, last bool) (Result, error) {
	node := s.Node.Node
	uid := node.UID
	err := s.Workload.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.Preconditions{UID: &uid})
	switch {
	case err == nil:
		s.memory.requested.Add(uid, node.ResourceVersion, s.Now)
		return s.waitForNode(s.Now, limit), nil
	case s.Workload.ConfirmGone(ctx, node.Name, err):
		return Result{}, nil
	case last && (!cluster.IsUnread(err) || s.setNodeDeletionLimit() > 0):
		s.reportFailed(deleteNodeStage(), notWithin(limit)+": "+err.Error())
		return Result{}, nil
	}
	began := s.beginNodeDeletion()
	if cluster.IsUnread(err) {
		return s.waitFor(contract.ReasonDeletingNode, err.Error(), engine.ConflictRetry), nil
	}
	if limit <= 0 && !apierrors.IsConflict(err) { // the Node has another UID by now, and its event will follow
		if started.IsZero() { // with a limit, an event follows when it is reached
			s.tell(corev1.EventTypeWarning, EventNodeDeletionFailed, actionDeleteNode, "error deleting Machine's Node: "+err.Error())
		}
		return s.Wait(contract.ReasonDeletingNode, err.Error()), fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return s.waitFor(contract.ReasonDeletingNode, err.Error(), s.until(attemptRetry(s.Now.Sub(began)), began, limit)), nil
}

// attemptRetry is when a failed attempt is repeated, without back-off: each time after twice as long, so that a limit is still noticed in
// time.
func attemptRetry(elapsed time.Duration) time.Duration {
	return min(max(elapsed, time.Second), 30*time.Second)
}

func (s *Scope) waitForNode(since time.Time, limit time.Duration) Result {
	return s.waitFor(contract.ReasonDeletingNode, "Waiting for Node "+s.Node.Node.Name+" to be deleted", s.until(0, since, limit))
}

// setNodeDeletionLimit returns the limit in the Machine's spec, zero when it is only this module's default: the default is for a Node that
// is not deleted, and not for a cluster that does not answer.
func (s *Scope) setNodeDeletionLimit() time.Duration { return s.State.NodeDeletionTimeout.Or(0) }

// beginNodeDeletion records the first attempt that did not delete the Node, or the first pass that could not try because the Nodes were
// unread, and returns when that was. Otherwise no limit is needed.
func (s *Scope) beginNodeDeletion() time.Time {
	s.begin(StepDeleteNode)
	return s.begins(StepDeleteNode)
}
