package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/drain/runner"
)

// run plans, refuses or cordons, and drains. An ended ctx stops it; what it leaves is printed, and can be resumed.
func (s *session) run(ctx context.Context) int {
	snap, err := s.read(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	plan := s.judge(snap)
	if plan.blocked() && !s.wait {
		return s.refuse(plan)
	}
	if err := s.checkRights(ctx); err != nil {
		return s.fail(ctx, err)
	}
	f := newFollower(s.stdout, plan, s.now)
	drained, err := s.carryOut(ctx, snap, f)
	code := exitDone
	switch {
	case err == nil:
	case ctx.Err() != nil:
		code = exitInterrupted
	case errors.Is(err, runner.ErrOutOfTime):
		code = exitOutOfTime
	default:
		code = exitFailed
	}
	f.end(code, err, drained)
	return code
}

// refuse names what would keep the drain from ending.
func (s *session) refuse(plan *report) int {
	fmt.Fprintf(s.stdout, "Refused: this drain would not end, and nothing was changed.\n%s"+
		"To see all pods: plan in place of run. To start nevertheless, and wait until the obstacles are removed: --wait.\n", plan.obstacleText())
	return exitBlocked
}

// carryOut returns the results of the Nodes, if the drain has begun, and why one of them is not drained.
func (s *session) carryOut(ctx context.Context, snap *snapshot, f *follower) ([]runner.NodeResult, error) {
	policy := s.policyOf()
	return runner.Drain(ctx, s.config, runner.DrainOptions{
		Timeout: s.timeout, Rules: s.rulesOf(s.now), Policy: &policy, Progress: f.progress,
		Configure: func(cfg *runner.Config) {
			cfg.Evictor = telling{cfg.Evictor, f}
			if s.quick {
				cfg.Debounce, cfg.Settle = 5*time.Millisecond, 20*time.Millisecond
			}
		},
	}, namesOf(snap.nodes)...)
}
