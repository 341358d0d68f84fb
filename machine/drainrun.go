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
		return Result{Stop: true, RequeueAfter: s.until(result.RequeueAfter, s.State.DrainStarted, s.limits().Drain)}, nil
	}
	s.SetDrained(s.Node.Node.UID)
	s.releaseNode()
	return Result{}, nil
}

func (s *Scope) releaseNode() {
	if s.Workload.Drainer != nil && s.State.Node.Name != "" {
		s.Workload.Drainer.Release(s.State.Node.Name)
	}
}
