package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
)

func (s *Scope) drain(ctx context.Context) (Result, error) {
	rules, err := s.drainRules(ctx)
	if err != nil {
		return s.drainFailed(err)
	}
	s.holdNode()
	result, err := s.Workload.Drainer.Step(ctx, runner.Request{
		Node: s.Node.Node, Owner: s.State.Key, Rules: rules, Policy: s.env.options.Policy.DrainPolicy, StartedAt: s.State.DrainStarted,
		PoweredOff: s.PoweredOff,
	})
	if err != nil {
		return s.drainFailed(err)
	}
	s.Blockers, s.waiting = result.Blockers, &result.Counts
	switch {
	case result.Abandoned:
		s.abandonDrain("given up by the drain policy")
		return Result{}, nil
	case !result.Done:
		message := fmt.Sprintf("Drain not completed yet (started at %s):\n%s", s.State.DrainStarted.UTC().Format(time.RFC3339), result.Message)
		s.Wait(ReasonDrainingNode, strings.TrimSpace(message))
		return Result{Stop: true, RequeueAfter: s.until(result.RequeueAfter, s.State.DrainStarted, s.limits().Drain)}, nil
	}
	s.SetDrained(s.Node.Node.UID)
	return Result{}, nil
}

func (s *Scope) drainFailed(err error) (Result, error) {
	s.Wait(ReasonDrainingNode, err.Error())
	if isUnread(err) {
		return Result{Stop: true, RequeueAfter: s.until(conflictRetry, s.State.DrainStarted, s.limits().Drain)}, nil
	}
	return Result{}, fmt.Errorf("drain Node %s: %w", s.Node.Node.Name, err)
}

// drainRules are the rules for the pods of this Machine's Node; nil means those of the Drainer.
func (s *Scope) drainRules(ctx context.Context) ([]drain.Rule, error) {
	rules := s.env.options.Policy.DrainRules
	if rules == nil {
		return nil, nil
	}
	return rules(ctx, s)
}

// holdNode remembers that this process watches the Node's pods or volumes from now on.
func (s *Scope) holdNode() {
	name, drainer, volumes := s.State.Node.Name, s.Workload.Drainer, s.Workload.Volumes
	s.env.memory.hold(s.State.Key, heldNode{name: name, release: func() { releaseNode(name, drainer, volumes) }})
}

// releaseNode stops watching the pods and the volumes of the Node. It must not be called while the pass waits for either: they would be
// listed again. A Node of the recorded name may belong to another Machine by now, which may be draining it.
func (s *Scope) releaseNode() {
	held := s.env.memory.letGo(s.State.Key)
	switch {
	case held.release != nil:
		held.release()
	case s.Node.Outcome != noderef.Stale && s.Node.Outcome != noderef.Claimed:
		releaseNode(s.State.Node.Name, s.Workload.Drainer, s.Workload.Volumes) // a step of the embedder may have begun
	}
}

func releaseNode(name string, drainer Drainer, volumes Volumes) {
	if name == "" {
		return
	}
	if drainer != nil {
		drainer.Release(name)
	}
	if volumes != nil {
		volumes.Release(name)
	}
}
