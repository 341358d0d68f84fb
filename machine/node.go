package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// matchNode looks the Machine's Node up, and records it when it is a new one. A Machine whose infrastructure is another
// controller's has no Node, whatever provider ID it names: that Node is the other's to label, to drain and to delete.
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

// matchOf finds the Node of a Machine among those of the cluster, in the light of the other Machines.
func (s *Scope) matchOf(ctx context.Context) (noderef.Match, error) {
	rules, id := s.env.options.Matching, identityOf(&s.State)
	if !s.env.indexed {
		return rules.Resolve(id, s.Workload.Nodes, nil), nil
	}
	others := claims{ctx: ctx, r: s.env, cluster: s.cluster, self: s.State.Key}
	return rules.Resolve(id, s.Workload.Nodes, &others), others.err
}

// nodeStep looks the Machine's Node up, and says how it is.
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
			err = nil // only the stages that need the Nodes are held up, and they report it
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
