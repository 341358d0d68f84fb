package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// watch is a clock that a test moves.
type watch struct{ at time.Time }

func (w *watch) now() time.Time { return w.at }

func planned(nodes ...string) *report {
	r := &report{}
	for _, name := range nodes {
		r.Nodes = append(r.Nodes, nodeReport{Name: name, Counts: whenReport{Pods: 6, Now: 5, Stay: 1}})
	}
	return r
}

func blocked(clock *watch, node string) runner.NodeResult {
	return runner.NodeResult{Node: node, Result: runner.Result{
		Counts: drain.Counts{Total: 5, Terminating: 2, Blocked: 2, Ignored: 1},
		Blockers: []drain.Blocker{{
			Node: node, Reason: drain.ReasonBudgetExhausted, Budgets: []types.NamespacedName{{Namespace: "default", Name: "web"}},
			Pods: []drain.PodRef{{Namespace: "default", Name: "web-0"}}, Count: 2, Since: clock.at,
			Message: "cannot evict pod as it would violate the pod's disruption budget. The disruption budget web needs 2",
		}},
	}}
}

func TestLive_ShowsARowPerNodeAndWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	clock := &watch{noon()}
	var out bytes.Buffer
	view := &liveView{out: &out, size: func() (int, int) { return 70, 24 }}
	f := newFollower(view, planned("a", "b"), clock.now)
	f.tell(change{Event: eventPlanned, Plan: planned("a", "b")})
	f.progress(blocked(clock, "a"))
	clock.at = clock.at.Add(12 * time.Second)
	out.Reset()
	view.tick()
	want := strings.Join([]string{
		"\x1b[3A\r\x1b[JNODE  STATE     GONE  LEFT  TERMINATING  WAITING  BLOCKED  STAY  TIME",
		"a     draining  1     4     2            0        2        1     12s",
		"b     waiting   0     5     0            5        0        1     -",
		"! a: blocked for 12s: default/web-0 and 1 more",
		"    The disruption budget web needs 2",
		"",
	}, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	f.progress(runner.NodeResult{Node: "a", Ended: true, Result: runner.Result{Done: true, Counts: drain.Counts{Total: 1, Ignored: 1}}})
	f.tell(change{Event: eventTrouble, Node: "b", Message: "connection\nrefused"})
	view.finish(summary{Outcome: outcomeDrained, Seconds: 12, Nodes: []ending{{Node: "a"}, {Node: "b"}}})
	require.Contains(t, out.String(), "b: trying again: connection refused\nNODE")
	require.Contains(t, out.String(), "a     drained  5     0     0            0        0        1     12s")
	require.True(t, strings.HasSuffix(out.String(), "\nDrained a, b in 12.0s.\n"))
}

func TestLive_FitsALowAndNarrowTerminal(t *testing.T) {
	t.Parallel()
	clock := &watch{noon()}
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("node-%02d", i))
	}
	var out bytes.Buffer
	view := &liveView{out: &out, size: func() (int, int) { return 40, 10 }}
	f := newFollower(view, planned(names...), clock.now)
	f.progress(blocked(clock, "node-29"))
	view.tick()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 8, "what scrolls away cannot be redrawn")
	require.Contains(t, lines[1], "node-29  draining", "those at work come first")
	require.Contains(t, lines[7], "more lines")
	for _, line := range lines[1:] {
		require.LessOrEqual(t, len(line), 40)
	}
}

func TestLines_SayWhatLastsAndNotWhatPasses(t *testing.T) {
	t.Parallel()
	clock := &watch{noon()}
	var out bytes.Buffer
	view := &lineView{out: &out}
	f := newFollower(view, planned("a"), clock.now)
	pass := func(r runner.NodeResult) {
		f.progress(r)
		clock.at = clock.at.Add(400 * time.Millisecond)
	}
	free := runner.NodeResult{Node: "a", Result: runner.Result{Counts: drain.Counts{Total: 6, Evictable: 5, Ignored: 1}}}
	pass(blocked(clock, "a"))
	pass(free)
	require.Empty(t, out.String())
	view.tick()
	pass(blocked(clock, "a"))
	view.tick()
	pass(blocked(clock, "a"))
	view.tick()
	pass(free)
	view.tick()
	want := `   0.4s a: 0 of 5 pods gone, 5 about to be evicted
   0.8s a: blocked: default/web-0 and 1 more: The disruption budget web needs 2
   0.8s a: 1 of 5 pods gone, 2 terminating, 2 blocked
   1.6s a: no longer blocked by budget default/web
   1.6s a: 0 of 5 pods gone, 5 about to be evicted
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFollower_PodsThatAreNotKnownYetAreNotGone(t *testing.T) {
	t.Parallel()
	clock := &watch{noon()}
	f := newFollower(&lineView{out: &bytes.Buffer{}}, planned("a"), clock.now)
	f.progress(runner.NodeResult{Node: "a", Result: runner.Result{Message: "* waiting for the list of Pods of the Node"}})
	require.Equal(t, 5, f.node("a").counts.Left)
	require.Zero(t, f.node("a").counts.Gone)
}

func TestCut_CountsCharactersAndNotBytes(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ääää", cut("ääää", 4))
	require.Equal(t, "ä...", cut("äääää", 4))
	require.Equal(t, "..", cut("äääää", 2))
	require.Equal(t, "any", cut("any", 0))
}

// A pod that was terminating at the interrupt is gone at the last look: what is said of both must agree.
func TestAnInterruptedDrainSaysOneNumber(t *testing.T) {
	t.Parallel()
	for name, show := range map[string]func(*bytes.Buffer) view{
		"lines": func(out *bytes.Buffer) view { return &lineView{out: out} },
		"table": func(out *bytes.Buffer) view {
			return &liveView{out: out, size: func() (int, int) { return 120, 40 }}
		},
	} {
		clock := &watch{noon()}
		var out bytes.Buffer
		f := newFollower(show(&out), planned("a"), clock.now)
		last := blocked(clock, "a")
		last.Ended, last.Err = true, context.Canceled
		f.progress(last)
		out.Reset()
		f.view.tell(change{Event: eventStopped, Node: "a", Time: clock.at, Counts: &countsReport{Gone: 1, Left: 4}})
		s := &session{program: &program{now: clock.now}}
		end := summary{Event: eventSummary, Outcome: outcomeInterrupted, ExitCode: exitInterrupted, Nodes: []ending{{
			Node: "a", State: stateStopped, planned: 5, Blockers: f.node("a").blockers,
		}}}
		end.Nodes[0].leaves(&nodeReport{Name: "a", Cordoned: true})
		require.Equal(t, exitInterrupted, s.finish(f, end))
		require.Contains(t, out.String(), "a: stopped, 5 gone, 0 left, cordoned", name)
		require.NotContains(t, out.String(), "4", "%s: the number before the last look", name)
		require.NotContains(t, out.String(), "blocked:", "%s: nothing is left that could be", name)
	}
}
