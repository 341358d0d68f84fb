package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/drain"
)

var update = flag.Bool("update", false, "write testdata instead of comparing with it")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update writes it:\n%s", path, diff)
	}
}

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// judged plans with the flags of a command and without a cluster.
func judged(t *testing.T, snap *snapshot, args ...string) *report {
	t.Helper()
	o, err := parse(args, io.Discard)
	require.NoError(t, err)
	return sessionOf(o).judge(snap)
}

func sessionOf(o options) *session { return &session{program: &program{now: noon}, options: o} }

// twoNodes have one of everything that a plan can say.
func twoNodes() *snapshot {
	silent := newNode("worker-2")
	silent.Spec.Unschedulable = true
	silent.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon().Add(-7 * time.Minute)),
	}}
	going := newPod("worker-2", "going", app("going"))
	going.DeletionTimestamp = new(metav1.NewTime(noon().Add(10 * time.Second)))
	going.Finalizers = []string{"example.com/goodbye"}
	slow := newPod("worker-1", "dns", inNamespace("kube-system"), critical, app("dns"))
	slow.Spec.TerminationGracePeriodSeconds = new(int64(60))
	return &snapshot{
		nodes: []*corev1.Node{newNode("worker-1"), silent},
		pods: []drain.NodePods{
			{Node: "worker-1", Pods: append(numbered("worker-1", "web", 2), slow, newPod("worker-1", "cache", app("cache"), withScratch),
				newPod("worker-1", "agent", inNamespace("kube-system"), owned("apps/v1", "DaemonSet", "agent"), app("agent")),
				newPod("worker-1", "db-0", app("db")))},
			{Node: "worker-2", Pods: []*corev1.Pod{newPod("worker-2", "web-9"), going, newPod("worker-2", "debug", bare, app("debug"))}},
		},
		budgets: []*policyv1.PodDisruptionBudget{newBudget("web", 2, 3), newBudget("db", 3, 3)},
	}
}

func TestPlan_AsATable(t *testing.T) {
	t.Parallel()
	r := judged(t, twoNodes(), "plan", "worker-1", "worker-2")
	golden(t, "plan.txt", r.text())
	require.True(t, r.Blocked)
	r = judged(t, twoNodes(), "plan", "worker-1", "worker-2", "--force", "--delete-emptydir-data", "--disable-eviction")
	golden(t, "plan-all.txt", r.text())
	require.False(t, r.Blocked, "nothing is left that never goes")
}

func TestPlan_WhatStandsInTheWayForGood(t *testing.T) {
	t.Parallel()
	closed := []*policyv1.PodDisruptionBudget{newBudget("web", 3, 3)}
	finalized := newPod("n", "a")
	finalized.Finalizers = []string{"example.com/x"}
	for name, c := range map[string]struct {
		reason  string
		pod     *corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		flags   []string
		when    string
		remedy  string // empty: nothing stands in the way
	}{
		"a pod like any other": {pod: newPod("n", "a"), when: whenNow},
		"a closed budget": {pod: newPod("n", "a"), budgets: []*policyv1.PodDisruptionBudget{newBudget("web", 2, 2)}, when: whenNever,
			remedy: "add replicas"},
		"a budget that will open":  {reason: "one pod is not healthy yet", pod: newPod("n", "a"), budgets: closing(), when: whenLater},
		"a budget without a way":   {pod: newPod("n", "a"), budgets: closed, when: whenNever, remedy: "add replicas"},
		"is overcome by deletion":  {pod: newPod("n", "a"), budgets: closed, flags: []string{"--disable-eviction"}, when: whenNow},
		"local data":               {pod: newPod("n", "a", withScratch), when: whenNever, remedy: "--delete-emptydir-data"},
		"local data that may go":   {pod: newPod("n", "a", withScratch), flags: []string{"--delete-emptydir-data"}, when: whenNow},
		"no controller":            {pod: newPod("n", "a", bare), when: whenNever, remedy: "--force"},
		"no controller, and force": {pod: newPod("n", "a", bare), flags: []string{"--force"}, when: whenNow},
		"a DaemonSet":              {pod: newPod("n", "a", owned("apps/v1", "DaemonSet", "d")), when: whenStays},
		"a DaemonSet that may not": {pod: newPod("n", "a", owned("apps/v1", "DaemonSet", "d")), flags: []string{"--ignore-daemonsets=false"},
			when: whenNever, remedy: "use --ignore-daemonsets to ignore"},
		"a finalizer": {reason: "its controller may live", pod: finalized, when: whenNow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snap := &snapshot{
				nodes: []*corev1.Node{newNode("n")}, pods: []drain.NodePods{{Node: "n", Pods: []*corev1.Pod{c.pod}}}, budgets: c.budgets,
			}
			r := judged(t, snap, append([]string{"plan", "n"}, c.flags...)...)
			require.Equal(t, c.when, r.Nodes[0].Pods[0].When, c.reason)
			require.Equal(t, c.remedy != "", r.Blocked, c.reason)
			if c.remedy != "" {
				require.Contains(t, r.obstacles(), c.remedy)
			}
		})
	}
}

// closing returns a budget that allows nothing at the moment.
func closing() []*policyv1.PodDisruptionBudget {
	pdb := newBudget("web", 2, 2)
	pdb.Status.ExpectedPods = 3
	return []*policyv1.PodDisruptionBudget{pdb}
}

func TestPlan_PassesGracePeriodsOn(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"plan", "n", "--grace-period=5"}, io.Discard)
	require.NoError(t, err)
	plan := drain.Planner{Rules: o.rulesOf(noon)}.Plan([]drain.NodePods{{Node: "n", Pods: []*corev1.Pod{newPod("n", "a")}}}, drain.Facts{})
	require.EqualValues(t, 5, *plan.Decisions[0].GracePeriodSeconds)
}

func TestPlan_DoesNotWaitForPodsThatShouldBeGone(t *testing.T) {
	t.Parallel()
	stuck := newPod("n", "a")
	stuck.DeletionTimestamp = new(metav1.NewTime(noon().Add(-2 * time.Minute)))
	snap := &snapshot{nodes: []*corev1.Node{newNode("n")}, pods: []drain.NodePods{{Node: "n", Pods: []*corev1.Pod{stuck}}}}
	r := judged(t, snap, "plan", "n")
	require.Equal(t, whenGoing, r.Nodes[0].Pods[0].When)
	r = judged(t, snap, "plan", "n", "--skip-wait-for-delete-timeout=60")
	require.Equal(t, whenStays, r.Nodes[0].Pods[0].When)
	require.Equal(t, drain.ReasonStuckTerminating, r.Nodes[0].Pods[0].Reason)
}

func TestPlan_TextOfAClusterCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a [2J b", oneLine("a\x1b [2J\n\tb\x07"))
}

func TestPlan_ChangesNothingAndReadsAsLittleAsItCan(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.create(newDaemonSet("default", "agent"))
	s.pods(newPod("a", "web-0"), newPod("b", "web-1"), newPod("a", "agent-a", owned("apps/v1", "DaemonSet", "agent"), app("agent")))
	s.store.ResetRequests()
	got := s.do("plan", "-l", "pool=old")
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Contains(t, got.stdout, "a: 1 pod to go, 1 now, 1 stays")
	require.Contains(t, got.stdout, "b: 1 pod to go, 1 now")
	require.Zero(t, s.writes())
	require.Len(t, s.store.Requests(), 4, "Nodes, the pods of each, budgets")
}

func TestPlan_CountsBudgetsOverAllNodes(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a", "b")
	s.pods(newPod("a", "web-0"), newPod("b", "web-1"))
	s.budget("web", 1)
	got := s.do("plan", "a", "b")
	require.Equal(t, exitDone, got.code, got.stderr)
	require.Contains(t, got.stdout, "a: 1 pod to go, 1 now")
	require.Contains(t, got.stdout, "b: 1 pod to go, 1 later")
	require.Contains(t, got.stdout, "Held for now: b: default/web-1: ")
}

func TestPlan_ExitCodeTellsWhetherSomethingStandsInTheWay(t *testing.T) {
	t.Parallel()
	s := newStage(t, "a")
	s.pods(newPod("a", "debug", bare))
	require.Equal(t, exitBlocked, s.do("plan", "a").code)
	require.Equal(t, exitDone, s.do("plan", "a", "--force").code)
}
