package machine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// deleteNodeStage deletes the Node when all other objects are gone.
func deleteNodeStage() Stage {
	return Stage{
		Name: StepDeleteNode, Reason: contract.ReasonDeletingNode, Excluded: (*Scope).whyNodeStays, Limit: (*Scope).nodeDeletionLimit,
		Run: deleteNode, done: func(s *Scope) bool { return s.NodesSynced && s.Node.Node == nil }, care: true, nodes: true,
		started: (*Scope).nodeDeletionStarted, last: true, confirm: (*Scope).confirmNodeToDelete,
		left: EventNodeNotDeleted, failed: EventNodeDeletionFailed, action: actionDeleteNode,
		failure: "error deleting Machine's Node %q: %s: the Machine continues without", exits: "set a timeout of the deletion of the Node",
	}
}

// whyNodeStays returns why a Node that may still exist is not deleted, empty when it is. Only the recorded Node, with the same UID, is
// deleted.
func (s *Scope) whyNodeStays() string {
	node, recorded := s.Node.Node, s.State.Node
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
	return s.nodeDoubt()
}

// confirmNodeToDelete confirms with the API server that a Node that is missing in the index is gone.
//
// If several Nodes have the provider ID and the infrastructure is confirmed gone, all of them are deleted. Without the index they are not,
// because the claims of other Machines are unknown.
func (s *Scope) confirmNodeToDelete(ctx context.Context) error {
	if s.Node.Outcome == noderef.Ambiguous && s.env.indexed {
		gone, err := s.confirmInfrastructureGone(ctx)
		if err == nil && (gone || s.InstanceGone) {
			err = s.matchNode(ctx, true)
		}
		if err != nil {
			return err
		}
	}
	s.confirmNoNode(ctx)
	return nil
}

// deleteNode makes one attempt, and waits until an event of the Node shows its effect.
func deleteNode(ctx context.Context, s *Scope) (Result, error) {
	node := s.Node.Node
	if s.Node.Record {
		return s.recordFirst(contract.ReasonDeletingNode, "Node "+node.Name+" was matched: recording it first")
	}
	uid := node.UID
	s.memory.requested.Observe(uid, node.ResourceVersion, node.DeletionTimestamp != nil)
	if node.DeletionTimestamp == nil && !s.memory.requested.Has(uid) {
		err := s.Workload.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.Preconditions{UID: &uid})
		switch {
		case err == nil:
			s.memory.requested.Add(uid, node.ResourceVersion, s.Now)
		case s.Workload.ConfirmGone(ctx, node.Name, err):
			return Result{}, nil
		default:
			if cluster.IsUnread(err) {
				s.NodesSynced, s.NodesErr = false, err
			}
			return s.nodeFailed(contract.ReasonDeletingNode, err.Error(), "delete", err)
		}
	}
	return s.Wait(contract.ReasonDeletingNode, "Waiting for Node "+node.Name+" to be deleted"), nil
}

// nodeDeletionStarted returns when the API server accepted the deletion of the Node, zero before. Until then the limit counts from the
// recorded start of the stage: the first attempt that failed, or the first pass that could not read the Nodes.
func (s *Scope) nodeDeletionStarted() (at time.Time) {
	if node := s.Node.Node; node != nil {
		if at = s.memory.requested[node.UID].At; node.DeletionTimestamp != nil {
			at = later(at, node.DeletionTimestamp.Time)
		}
	}
	return at
}

// nodeDeletionLimit returns the timeout in the Machine's spec. The default applies to a Node that is not deleted, not to a cluster that
// does not respond.
func (s *Scope) nodeDeletionLimit() time.Duration {
	if !s.NodesSynced {
		return s.State.NodeDeletionTimeout.Or(0)
	}
	return s.State.NodeDeletionTimeout.Or(defaultNodeDeletionTimeout)
}
