package main

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

func TestFollower(t *testing.T) {
	var out bytes.Buffer
	snap := &snapshot{nodes: []*corev1.Node{newNode("a")}, pods: []drain.NodePods{{Node: "a", Pods: numbered("a", "web", 5)}}}
	o, err := parse([]string{"run", "a"}, io.Discard)
	require.NoError(t, err)
	s := sessionOf(o)
	s.stdout = &out
	f := s.follow(s.judge(snap))
	t.Run("does not count pods that are not known yet as gone", func(t *testing.T) {
		f.progress(runner.NodeResult{Node: "a"})
		left, gone := f.left(&f.plan.Nodes[0])
		require.Equal(t, []int{5, 0}, []int{left, gone})
	})
	t.Run("prints once what blocks", func(t *testing.T) {
		for range 2 {
			f.progress(runner.NodeResult{Node: "a", Result: runner.Result{
				Counts: drain.Counts{Total: 5, Terminating: 2, Blocked: 2, Ignored: 1},
				Blockers: []drain.Blocker{{
					Node: "a", Reason: drain.ReasonBudgetExhausted, Pods: []drain.PodRef{{Namespace: "default", Name: "web-0"}}, Count: 2, Message: "full",
				}},
			}})
		}
		require.Equal(t, "   0.0s draining 1 Node: 5 pods to go (Ctrl-C stops, the same command resumes)\n"+
			"   0.0s a: blocked: default/web-0 and 1 more: full\n", out.String())
		left, gone := f.left(&f.plan.Nodes[0])
		require.Equal(t, []int{4, 1}, []int{left, gone})
	})
	t.Run("ends with what has gone of a Node that is stopped", func(t *testing.T) {
		stopped := runner.NodeResult{Node: "a", Ended: true, Err: context.Canceled, Result: runner.Result{
			Counts: drain.Counts{Total: 5, Blocked: 2, Ignored: 1}}}
		f.progress(stopped)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, exitInterrupted, f.end(ctx, context.Canceled))
		require.Contains(t, out.String(), "   0.0s a: stopped: 1 gone, 4 left\n")
	})
}
