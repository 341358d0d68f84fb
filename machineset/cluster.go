package machineset

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/contract/pass"
)

// observeCluster looks up the set's Cluster, and decides whether the set is paused.
func (s *Scope) observeCluster(ctx context.Context) error {
	var err error
	if s.env.ports.ClusterOf != nil && s.state.ClusterName != "" {
		s.cluster, err = s.env.ports.ClusterOf(ctx, s.key(s.state.ClusterName))
		s.requeue(s.cluster.RetryAfter)
	}
	if err != nil {
		s.paused = true
		return fmt.Errorf("read Cluster %s: %w", s.key(s.state.ClusterName), err)
	}
	said, ends := pass.DecidePause(pass.PauseFacts{
		Cluster: s.cluster, ClusterKey: s.key(s.state.ClusterName), Kind: s.env.kinds.Set.GVK.Kind,
		Annotated: s.state.Paused(), Deleting: !s.state.Deleting.IsZero(),
	})
	if paused, known := said.Get(); known {
		s.pausedCondition = &paused
	}
	s.paused = ends
	return nil
}
