package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// DefaultNodeDeletionTimeout limits how long a Machine waits for its Node to go, unless the Machine says otherwise; the
// value is Cluster API's.
const DefaultNodeDeletionTimeout = 10 * time.Second

// absenceRetry is when to look again for an object that the cache does not have and the API server does.
const absenceRetry = time.Second

func (s *Scope) refKey(e External) types.NamespacedName {
	return types.NamespacedName{Namespace: s.State.Key.Namespace, Name: e.Ref.Name}
}

func deleteInfrastructureStep(ctx context.Context, s *Scope) (Result, error) {
	mattered := s.State.InfrastructureReady.Or(false) || s.State.ProviderID != ""
	return s.deleteReferenced(ctx, s.Infrastructure, mattered, ReasonWaitingForInfrastructureDeletion)
}

func deleteBootstrapStep(ctx context.Context, s *Scope) (Result, error) {
	return s.deleteReferenced(ctx, s.Bootstrap, false, ReasonWaitingForBootstrapDeletion)
}

func (s *Scope) deleteReferenced(ctx context.Context, e External, mattered bool, reason string) (Result, error) {
	action, message := decideRemoval(e, mattered)
	switch action {
	case removalDone:
		return Result{}, nil
	case removalDelete:
		if err := s.deleteExternal(ctx, e); err != nil {
			return Result{}, err
		}
	case removalConfirm:
		return s.continueWhenGone(ctx, e.GVK, s.refKey(e), reason, message)
	case removalConfirmKind:
		crd := types.NamespacedName{Name: contract.CRDName(e.Ref.GroupKind())}
		return s.continueWhenGone(ctx, crdGVK, crd, reason, message)
	case removalWait:
	}
	return s.Wait(reason, message), nil
}

// continueWhenGone goes on when the API server itself says that an object is gone, and looks again soon when it does not.
func (s *Scope) continueWhenGone(
	ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, reason, message string,
) (Result, error) {
	gone, err := s.env.confirmAbsent(ctx, gvk, key)
	if err != nil || gone {
		return Result{}, err
	}
	s.Wait(reason, message)
	return Result{Stop: true, RequeueAfter: absenceRetry}, nil
}

// nodeDeletion is what to do about the Node of a Machine whose machine is gone.
type nodeDeletion uint8

const (
	nodeLeave nodeDeletion = iota
	nodeDelete
	nodeRecord
	nodeWait
)

type nodeDeletionFacts struct {
	Synced  bool
	Match   noderef.Match
	Current noderef.Ref
	Rules   noderef.Rules
	// ProviderID is the Machine's.
	ProviderID string
	// Timeout is the limit, zero for none; Elapsed is the time since the deletion of the Machine was asked for.
	Timeout, Elapsed time.Duration
	Now              time.Time
}

// decideNodeDeletion: only the very Node that was recorded is deleted, and the wait for it has a limit.
func decideNodeDeletion(f nodeDeletionFacts) nodeDeletion {
	node := f.Match.Node
	switch {
	case !f.Synced:
		return nodeWait
	case node == nil:
		return nodeLeave
	case f.Match.Record:
		return nodeRecord
	case !f.Rules.MayTouch(node, f.Current, f.ProviderID):
		return nodeLeave
	case node.DeletionTimestamp == nil:
		return nodeDelete
	case f.Timeout > 0 && f.Now.Sub(node.DeletionTimestamp.Time) >= f.Timeout:
		return nodeLeave
	default:
		return nodeWait
	}
}

func deleteNodeStep(ctx context.Context, s *Scope) (Result, error) {
	facts := nodeDeletionFacts{
		Synced: s.NodesSynced, Match: s.Node, ProviderID: s.State.ProviderID, Now: s.Now,
		Current: noderef.Ref{Name: s.State.Node.Name, UID: s.State.Node.UID}, Rules: s.env.options.Matching,
		Timeout: s.State.NodeDeletionTimeout.Or(DefaultNodeDeletionTimeout), Elapsed: s.Now.Sub(s.State.Deleting),
	}
	switch decideNodeDeletion(facts) {
	case nodeLeave:
		return Result{}, nil
	case nodeRecord:
		s.urgent = true
		s.Wait(ReasonDeletingNode, "Node "+s.Node.Node.Name+" was matched: recording it first")
		return Result{Checkpoint: true}, nil
	case nodeWait:
		if !s.NodesSynced && s.isTold() {
			return s.Wait(ReasonDeletingNode, s.unread()), nil // an event tells when they can be read
		}
		s.Wait(ReasonDeletingNode, "Waiting for the Node to be deleted")
		return Result{Stop: true, RequeueAfter: time.Second}, nil
	case nodeDelete:
	}
	node := s.Node.Node
	uid := node.UID
	err := s.Workload.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.Preconditions{UID: &uid})
	switch {
	case err == nil:
		s.Wait(ReasonDeletingNode, "Waiting for Node "+node.Name+" to be deleted")
		return Result{Stop: true, RequeueAfter: time.Second}, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return Result{Stop: true, RequeueAfter: conflictRetry}, nil // its event is on the way
	case isUnread(err):
		s.Wait(ReasonDeletingNode, err.Error())
		return Result{Stop: true, RequeueAfter: conflictRetry}, nil
	case facts.Timeout > 0 && facts.Elapsed >= facts.Timeout:
		return Result{}, nil
	}
	s.Wait(ReasonDeletingNode, err.Error())
	return Result{}, fmt.Errorf("delete Node %s: %w", node.Name, err)
}

// removeFinalizerStep lets the Machine go: everything of it is gone.
func removeFinalizerStep(_ context.Context, s *Scope) (Result, error) {
	s.releaseNode()
	s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonDeletionCompleted, "Deletion completed"))
	s.SetFinalizers(slices.DeleteFunc(slices.Clone(s.State.Finalizers), func(name string) bool {
		return name == s.env.options.Finalizer
	}))
	s.urgent = s.urgent || len(s.State.Finalizers) > 0 // others hold it, and no later pass would say that we are done
	return Result{}, nil
}
