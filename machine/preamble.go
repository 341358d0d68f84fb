package machine

import (
	"context"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// pauseStep ends the pass of a paused Machine. When the Machine or its Cluster asks for the pause, queued evictions of its drain are
// cancelled. A Cluster that is unread for a short time does not restart the drain.
func pauseStep(_ context.Context, s *Scope) (Result, error) {
	result := Result{}
	if said, ends := s.DecidePause(); ends {
		result = s.Pause(said.Status, said.Reason, said.Message)
	}
	result.RequeueAfter = pass.Soonest(s.Cluster.RetryAfter, s.Cluster.ControlPlane.RetryAfter)
	return result, s.ClusterErr
}

// finalizerStep keeps the Machine until all its objects are gone. The finalizer must be stored before any other object is changed: a
// Machine without it could be deleted and leave an instance behind.
func finalizerStep(_ context.Context, s *Scope) (Result, error) {
	if !s.AddFinalizer() {
		return Result{}, nil
	}
	if err := s.checkStored(); err != nil {
		return Result{Stop: true}, err
	}
	return Result{Checkpoint: true}, nil
}

// ownersStep labels the Machine with its cluster, and adds the Cluster as an owner if the Machine has no controller. A Machine that names a
// set, a pool or a control plane waits for its adoption.
func ownersStep(ctx context.Context, s *Scope) (Result, error) {
	return Result{}, s.JoinCluster(ctx, contract.SetNameLabel, contract.PoolNameLabel, contract.ControlPlaneNameLabel)
}
