package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// run plans, refuses or cordons, and drains. An ended ctx stops it; what it leaves is said, and can be resumed.
func (s *session) run(ctx context.Context) int {
	snap, err := s.read(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	plan, err := s.judge(snap)
	if err != nil {
		return s.fail(ctx, err)
	}
	show := s.newView()
	f := newFollower(show, plan, s.now)
	if plan.Blocked && !s.wait {
		return s.finish(f, s.refusal(plan))
	}
	if err := s.checkRights(ctx); err != nil {
		return s.fail(ctx, err)
	}
	stopTicking := f.keepTicking()
	f.tell(change{Event: eventPlanned, Plan: plan})
	err = s.carryOut(ctx, snap, f)
	stopTicking()
	return s.finish(f, s.summarise(ctx, f, err))
}

// carryOut returns errors that are of no Node; those of Nodes are the follower's.
func (s *session) carryOut(ctx context.Context, snap *snapshot, f *follower) error {
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeout, runner.ErrOutOfTime)
		defer cancel()
	}
	rules, err := s.rulesOf(snap.orphans, s.now)
	if err != nil {
		return err
	}
	cfg, opts, err := runner.Standalone(s.config)
	if err != nil {
		return err
	}
	if s.quick {
		cfg.Debounce, cfg.Settle = 5*time.Millisecond, 20*time.Millisecond
	}
	// All Nodes first, so that pods of one do not move to the next.
	if err := s.cordon(ctx, snap.nodes, f); err != nil {
		return err
	}
	cfg.Evictor, cfg.Deleter = f.evictor(cfg.Evictor), f.deleter(cfg.Deleter)
	policy := s.policyOf()
	opts.Parallel, opts.Rules, opts.Policy, opts.Progress = s.concurrency, rules, &policy, f.progress
	names := make([]string, 0, len(snap.nodes))
	for _, node := range snap.nodes {
		names = append(names, node.Name)
	}
	results, err := runner.Drain(ctx, cfg, opts, names...)
	if results == nil && err != nil { // it did not begin
		return err
	}
	if s.waitVolumes {
		return s.detach(ctx, rules, snap.nodes, f)
	}
	return nil
}

// cordon makes Nodes unschedulable, with a patch that fits no other Node of the same name.
func (s *session) cordon(ctx context.Context, nodes []*corev1.Node, f *follower) error {
	for _, node := range nodes {
		if node.Spec.Unschedulable {
			continue
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/uid", "value": node.UID},
			{"op": "add", "path": "/spec/unschedulable", "value": true},
		})
		if err != nil {
			return fmt.Errorf("cordon node %s: %w", node.Name, err)
		}
		_, err = s.client.CoreV1().Nodes().Patch(ctx, node.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
		switch {
		case propagate.Rejected(err): // the test failed; a Node that is refused as invalid gets the same status code
			return fmt.Errorf("cordon node %s: %w", node.Name, runner.ErrNodeReplaced)
		case err != nil:
			return fmt.Errorf("cordon node %s: %w", node.Name, s.explain("patch", "nodes", causeOf(ctx, err)))
		}
		f.tell(change{Event: eventCordoned, Node: node.Name})
	}
	return nil
}

// causeOf prefers why a context has ended to what a request says about it.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
