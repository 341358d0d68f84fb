package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/drain/runner"
)

func (s *Scope) drain(ctx context.Context) (Result, error) {
	result, err := s.Workload.Drainer.Step(ctx, runner.Request{Node: s.Node.Node, Owner: s.State.Key})
	if err != nil {
		s.Wait(ReasonDrainingNode, err.Error())
		if isUnread(err) {
			return Result{Stop: true, RequeueAfter: conflictRetry}, nil
		}
		return Result{}, fmt.Errorf("drain Node %s: %w", s.Node.Node.Name, err)
	}
	if !result.Done {
		message := fmt.Sprintf("Drain not completed yet (started at %s):\n%s", s.State.DrainStarted.UTC().Format(time.RFC3339), result.Message)
		s.Wait(ReasonDrainingNode, strings.TrimSpace(message))
		return Result{Stop: true, RequeueAfter: s.untilDrainTimeout(result.RequeueAfter)}, nil
	}
	s.SetDrained(s.Node.Node.UID)
	s.urgent = true
	s.releaseNode()
	s.Wait(ReasonDrainingNode, "Drain completed")
	return Result{Checkpoint: true}, nil
}

// untilDrainTimeout makes sure that the limit of a drain is noticed when it is reached.
func (s *Scope) untilDrainTimeout(after time.Duration) time.Duration {
	timeout, limited := s.State.NodeDrainTimeout.Get()
	if !limited || timeout <= 0 {
		return after
	}
	return soonest(after, max(s.State.DrainStarted.Add(timeout).Sub(s.Now), time.Second))
}

func (s *Scope) releaseNode() {
	if s.Workload.Drainer != nil && s.State.Node.Name != "" {
		s.Workload.Drainer.Release(s.State.Node.Name)
	}
}
