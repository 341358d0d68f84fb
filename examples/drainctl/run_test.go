package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

func TestRun_DrainsAndSaysSoInLines(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.create(newDaemonSet("default", "agent"))
	s.pods(append(numbered("a", "web", 3), newPod("b", "cache", app("cache"), withScratch),
		newPod("a", "agent-a", owned("apps/v1", "DaemonSet", "agent"), app("agent")))...)
	got := s.do("run", "a", "b", "--delete-emptydir-data")
	require.Equal(t, exitDone, got.code, got.stderr)
	for _, want := range []string{
		"draining 2 Nodes: 4 pods to go", "b: warning: default/cache: deleting Pods with local storage",
		"evicting default/web-1", "evicting default/cache", "a: drained", "b: drained", "Drained 2 Nodes in ",
	} {
		require.Contains(t, got.stdout, want)
	}
	require.Len(t, s.allPods(), 1, "the DaemonSet's")
	require.True(t, s.node("a").Spec.Unschedulable)
	require.Equal(t, 4, s.store.CountRequests(evictions), "one request per pod")
	require.Zero(t, s.store.CountRequests(requests("get", "Pod")))
}

func TestRun_RefusesBeforeTheFirstCordon(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.pods(newPod("a", "web-0"), newPod("b", "debug", bare, app("debug")))
	got := s.do("run", "a", "b")
	require.Equal(t, exitBlocked, got.code)
	for _, want := range []string{
		"nothing was changed", "b: default/debug: cannot delete Pods that declare no controller (use --force to override)",
		"plan in place of run", "--wait",
	} {
		require.Contains(t, got.stdout, want)
	}
	require.Zero(t, s.writes())
}

func TestRun_WaitsUntilABudgetAllowsAnEviction(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(numbered("a", "web", 2)...)
	pdb := s.budget("web", 2)
	out, _, wait := s.start("run", "a", "--wait")
	s.until("the budget is in the way", func() bool { return strings.Contains(out.String(), "a: blocked: ") })
	require.Len(t, s.allPods(), 2)
	require.NoError(t, s.live.Patch(t.Context(), pdb, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"minAvailable":0}}`))))
	got := wait()
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Empty(t, s.allPods())
}

func TestRun_AnInterruptLeavesAStateThatTheSameCommandResumes(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.pods(append(numbered("a", "web", 3), newPod("b", "free", app("free")), newPod("b", "later", app("later")))...)
	pdb := s.budget("web", 3)
	out, interrupt, wait := s.start("run", "a", "b", "--wait")
	s.until("the budget is in the way, and the other pods have gone", func() bool {
		return strings.Contains(out.String(), "a: blocked") && strings.Contains(out.String(), "b: drained") && len(s.allPods()) == 3
	})
	interrupt()
	got := wait()
	require.Equal(t, exitInterrupted, got.code)
	for _, want := range []string{
		"Stopped by a signal: no further evictions are asked for", "a: stopped: 0 gone, 3 left", "b: drained: 2 gone, 0 left",
		"a: blocked: default/web-0, default/web-1, default/web-2: cannot evict pod as it would violate the pod's disruption budget.",
		"To go on is the same command again", "kubectl uncordon a b",
	} {
		require.Contains(t, got.stdout, want)
	}
	require.Len(t, s.allPods(), 3)
	require.True(t, s.node("b").Spec.Unschedulable)

	require.NoError(t, s.live.Patch(t.Context(), pdb, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"minAvailable":0}}`))))
	again := s.do("run", "a", "b", "--wait")
	require.Equal(t, exitDone, again.code, again.stdout+again.stderr)
	require.Empty(t, s.allPods())
}

func TestRun_GivesUpAfterItsTime(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(numbered("a", "web", 2)...)
	s.budget("web", 2)
	var got told
	for _, timeout := range []string{"300ms", "3s", "1m"} { // long enough to ask once, however busy the machine is
		got = s.do("run", "a", "--wait", "--timeout", timeout)
		require.Equal(t, exitOutOfTime, got.code, got.stderr)
		if strings.Contains(got.stdout, "a: blocked: ") {
			break
		}
	}
	require.Contains(t, got.stdout, "Stopped because the time has passed")
	require.Contains(t, got.stdout, "a: stopped: 0 gone, 2 left")
	require.Contains(t, got.stdout, "a: blocked: default/web-0, default/web-1: ")
	require.True(t, s.node("a").Spec.Unschedulable)
}

func TestRun_DisablesEvictionWhenAsked(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(numbered("a", "web", 2)...)
	s.budget("web", 2)
	got := s.do("run", "a", "--disable-eviction")
	require.Equal(t, exitDone, got.code, got.stdout+got.stderr)
	require.Equal(t, 2, strings.Count(got.stdout, "deleting default/web-"))
	require.Equal(t, 2, s.store.CountRequests(requests("delete", "Pod")))
}

func TestOutputAsJSON(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(newPod("a", "web-0"))
	var plan report
	got := s.do("plan", "a", "-o", "json")
	require.Equal(t, exitDone, got.code, got.stderr)
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &plan))
	require.Equal(t, "a", plan.Nodes[0].Name)
	require.Equal(t, []podReport{{Pod: "default/web-0", Action: "evict", When: whenNow, Budgets: "-", Reason: drain.ReasonEvictable}},
		plan.Nodes[0].Pods)
	got = s.do("run", "a", "-o", "json")
	require.Equal(t, exitDone, got.code, got.stderr)
	var events []string
	for line := range strings.Lines(got.stdout) {
		var h happening
		require.NoError(t, json.Unmarshal([]byte(line), &h), line)
		events = append(events, h.Event)
	}
	require.Equal(t, []string{"draining", "evicting", "drained", "Drained"}, events)
}
