package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// nodeDeletion is what to do about the Node of a Machine whose infrastructure is gone.
type nodeDeletion uint8

const (
	nodeLeave nodeDeletion = iota
	nodeDelete
	// nodeDeleteLast: the limit has passed, and this attempt is the last. A limit that began while the Nodes were unread may pass before
	// the first attempt.
	nodeDeleteLast
	nodeRecord
	nodeWait
	// nodeUnread: wait for the Nodes, and record that the stage began.
	nodeUnread
	// nodeGiveUp: leave the Node as it is, and record an event.
	nodeGiveUp
)

type nodeDeletionFacts struct {
	Care   nodeCare
	Synced bool
	// Skipped: the Nodes are unread, and the deletion continues without this stage.
	Skipped bool
	Match   noderef.Match
	Current noderef.Ref
	Rules   noderef.Rules
	// MatchedByStep: a step of the embedder has matched the Node, by a rule of its own.
	MatchedByStep bool
	// ProviderID is the Machine's.
	ProviderID string
	// Started is the time of the first attempt that did not delete the Node at once, and Asked the time when the API server accepted one;
	// zero before. Limit is how long attempts and the wait may take, zero for no limit.
	Started, Asked time.Time
	Limit          time.Duration
	Now            time.Time
}

// decideNodeDeletion: only the recorded Node, with the same UID, is deleted, and the wait for it has a limit. After an accepted request
// the step only waits.
func decideNodeDeletion(f nodeDeletionFacts) nodeDeletion {
	node := f.Match.Node
	switch {
	case f.Care == careNone:
		return nodeLeave
	case !f.Synced && f.Skipped:
		return nodeGiveUp
	case !f.Synced:
		return nodeUnread
	case node == nil:
		return nodeLeave
	case f.Match.Record:
		return nodeRecord
	case noderef.RefTo(node) != f.Current, !f.MatchedByStep && !f.Rules.MayTouch(node, f.Current, f.ProviderID):
		return nodeLeave
	case node.DeletionTimestamp == nil && f.Asked.IsZero():
		if limitReached(f.Started, f.Limit, f.Now) {
			return nodeDeleteLast
		}
		return nodeDelete
	case limitReached(f.Asked, f.Limit, f.Now),
		node.DeletionTimestamp != nil && limitReached(node.DeletionTimestamp.Time, f.Limit, f.Now):
		return nodeGiveUp
	default:
		return nodeWait
	}
}

// deleteNodeStep deletes the Node when all other objects are gone. A pass makes one attempt at most, and does not wait.
func deleteNodeStep(ctx context.Context, s *Scope) (Result, error) {
	if s.decidedCare() == careUnknown {
		return s.waitForCare()
	}
	if s.decidedCare() == careDrainAndDelete {
		if err := s.matchSeveral(ctx); err != nil {
			return Result{}, err
		}
		s.confirmNoNode(ctx)
	}
	started, limit := s.begins(contract.StageDeleteNode), s.nodeDeletionLimit()
	facts := nodeDeletionFacts{
		Care: s.decidedCare(), Synced: s.NodesSynced, Match: s.Node, ProviderID: s.State.ProviderID, Rules: s.env.options.Matching,
		Current: noderef.Ref{Name: s.State.Node.Name, UID: s.State.Node.UID}, Started: started, Limit: limit, Now: s.Now,
	}
	if node := s.Node.Node; node != nil {
		facts.MatchedByStep = node != s.matched
		s.memory.requested.Observe(node.UID, node.ResourceVersion, node.DeletionTimestamp != nil)
		facts.Asked = s.memory.requested[node.UID].At
	}
	why := notWithin(limit)
	if !facts.Synced {
		facts.Skipped, why = s.skipsUnreachable(StepDeleteNode, started, s.setNodeDeletionLimit())
	}
	switch action := decideNodeDeletion(facts); action {
	case nodeLeave:
		s.reportLeft(EventNodeNotDeleted, actionDeleteNode, "is not deleted", s.whyNodeStays(facts))
	case nodeGiveUp:
		s.leaveNode(why)
	case nodeRecord:
		s.urgent = true
		return s.recordFirst(contract.ReasonDeletingNode, "Node "+s.Node.Node.Name+" was matched: recording it first")
	case nodeUnread:
		return s.waitUnread(contract.ReasonDeletingNode, why, s.beginNodeDeletion(), s.setNodeDeletionLimit())
	case nodeWait:
		since := facts.Asked
		if gone := s.Node.Node.DeletionTimestamp; gone != nil {
			since = gone.Time
		}
		return s.waitForNode(since, limit), nil
	case nodeDelete, nodeDeleteLast:
		return s.deleteNode(ctx, started, limit, action == nodeDeleteLast)
	}
	return Result{}, nil
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

// whyNodeStays says why a Node that still exists is not deleted.
func (s *Scope) whyNodeStays(f nodeDeletionFacts) string {
	switch {
	case f.Care == careNone && slices.ContainsFunc(s.told, func(e engine.Event) bool { return e.Reason == EventNodeNotDrained }):
		return "" // that event says both
	case f.Care == careNone:
		return s.careReason
	case f.Match.Node != nil:
		return "it is not the Node that was recorded"
	}
	switch f.Match.Outcome {
	case noderef.Stale:
		return anotherMachines
	case noderef.Claimed:
		return claimed(f.Match, &s.State)
	case noderef.Ambiguous:
		return ambiguous(f.Match, f.ProviderID)
	case noderef.NoProviderID:
		return nothingSaysOwn
	case noderef.NotFound, noderef.Unknown, noderef.Matched, noderef.Readopted:
	}
	return ""
}

// leaveNode records that the Machine is removed and its Node stays.
func (s *Scope) leaveNode(why string) {
	s.reportSkipped(EventNodeDeletionFailed, actionDeleteNode, fmt.Sprintf(
		"error deleting Machine's Node %q: %s: the Machine goes without", s.State.Node.Name, why))
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
	case external.SaysGone(err):
		return Result{}, nil
	case last && (!cluster.IsUnread(err) || s.setNodeDeletionLimit() > 0):
		s.leaveNode(notWithin(limit) + ": " + err.Error())
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
	s.begin(contract.StageDeleteNode)
	return s.begins(contract.StageDeleteNode)
}
