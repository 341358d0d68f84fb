package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// matchNode finds the Machine's Node, and records a new one. A Machine whose infrastructure object belongs to another controller has no
// Node, whatever its provider ID: the other controller labels, drains and deletes that Node.
func (s *Scope) matchNode(ctx context.Context) error {
	s.NodesSynced = s.NodesErr == nil && s.Workload.Nodes.HasSynced()
	if !s.NodesSynced {
		return nil
	}
	if s.Infrastructure.Foreign {
		s.Node = noderef.Match{Outcome: noderef.NoProviderID}
		return nil
	}
	match, err := s.matchOf(ctx)
	if err != nil {
		s.NodesSynced = false // other Machines could not be read: this one must not take the Node
		return err
	}
	s.Node, s.matched = match, match.Node
	if s.Node.Record && s.Node.Found() {
		s.SetNode(contract.NodeRef{Name: s.Node.Node.Name, UID: s.Node.Node.UID})
	}
	return nil
}

// matchOf finds the Node of a Machine among those of the cluster, with respect to the claims of other Machines.
func (s *Scope) matchOf(ctx context.Context) (noderef.Match, error) {
	rules, id := s.env.options.Matching, identityOf(&s.State)
	if !s.env.indexed {
		return rules.Resolve(id, s.Workload.Nodes, nil), nil
	}
	others := claims{ctx: ctx, r: s.env, cluster: s.cluster, self: s.State.Key}
	return rules.Resolve(id, s.Workload.Nodes, &others), others.err
}

// nodeStep finds the Machine's Node, and sets its conditions.
func nodeStep(ctx context.Context, s *Scope) (Result, error) {
	if err := s.matchNode(ctx); err != nil {
		s.assertAll(bothOfNode(metav1.ConditionUnknown, ReasonInternalError, seeLogs))
		return Result{}, err
	}
	conditions := decideNode(nodeFacts{
		Synced: s.NodesSynced, Match: s.Node, State: &s.State, Disowned: s.disowned(), Cluster: s.Cluster, Health: s.env.options.Policy.Health,
	})
	s.assertAll(conditions)
	if !s.NodesSynced {
		result, err := s.nodesUnread(len(conditions) > 0)
		if !s.State.Deleting.IsZero() {
			err = nil // only the stages that need the Nodes wait, and they report it
		}
		return result, err
	}
	return Result{}, nil
}

func (s *Scope) assertAll(conditions []metav1.Condition) {
	for _, c := range conditions {
		s.Assert(c)
	}
}

// isMissed reports whether the index does not have the recorded Node. The index may be behind by one registration.
func isMissed(m noderef.Match, recorded contract.NodeRef) bool {
	switch m.Outcome {
	case noderef.NotFound, noderef.Stale, noderef.NoProviderID:
		return recorded.Name != ""
	default:
		return false
	}
}

// isStill reports whether the Node that the API server returns for the recorded name is the Machine's: the recorded one, or its instance
// after it has registered again.
func isStill(node *corev1.Node, id noderef.Identity, rules noderef.Rules) bool {
	if !noderef.ValidProviderID(id.ProviderID) {
		return node.UID == id.Current.UID && node.UID != ""
	}
	return rules.Same(node.Spec.ProviderID, id.ProviderID) || rules.MayTouch(node, id.Current, id.ProviderID)
}

// confirmNoNode makes one request to confirm that the recorded Node is gone, when the index does not have it, before a stage of the
// deletion is skipped. A Node that exists, and a request that fails, leave the Nodes unread. A Node whose deletion this Machine has
// requested needs no confirmation.
func (s *Scope) confirmNoNode(ctx context.Context) {
	ref := s.State.Node
	if !s.NodesSynced || s.Infrastructure.Foreign || s.disowned() || !isMissed(s.Node, ref) || !s.env.memory.asked(&s.State, ref.UID).IsZero() {
		return
	}
	gone := goneObject{gvk: corev1.SchemeGroupVersion.WithKind("Node"), name: types.NamespacedName{Namespace: string(ref.UID), Name: ref.Name}}
	if s.env.memory.isGone(&s.State, gone) {
		return
	}
	var live corev1.Node
	switch err := s.Workload.reader().Get(ctx, client.ObjectKey{Name: ref.Name}, &live); {
	case external.SaysGone(err), err == nil && !isStill(&live, identityOf(&s.State), s.env.options.Matching):
		s.env.memory.setGone(&s.State, gone)
	case err != nil:
		s.NodesSynced, s.NodesErr = false, fmt.Errorf("make sure that Node %s is gone: %w", ref.Name, err)
	default: // its event will follow
		s.NodesSynced, s.nodesBehind = false, true
		s.NodesErr = fmt.Errorf("%w: Node %s exists, and its event has not come yet", cluster.ErrNotSynced, ref.Name)
	}
}
