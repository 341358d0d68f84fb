package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestWaitCompleted_FinishedPodsDoNotBlock(t *testing.T) {
	jobs := when(func(p *corev1.Pod) bool { return p.Labels["job"] == "yes" }, waitCompleted)
	job := labeled("job", "yes")
	pods := []*corev1.Pod{
		newPod("done", job, inPhase(corev1.PodSucceeded)), newPod("failed", job, inPhase(corev1.PodFailed)),
		newPod("leaving", job, inPhase(corev1.PodSucceeded), terminating), // Cluster API #12920 waits for these three
		newPod("daemon", job, ownedBy("apps/v1", "DaemonSet")),
		newPod("running", job), newPod("deleted", job, terminating), newPod("later"),
	}
	rules := []Rule{when(func(p *corev1.Pod) bool { return p.Name == "later" }, setOrder(1)),
		ignoreMirrorPods, ignoreDaemonSetPods, jobs, waitForTerminating, evictFinished, evictRest}
	plan := Planner{Rules: rules}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{})
	want := []string{
		"node-a daemon Ignore DaemonSetPod", "node-a deleted Wait Terminating", "node-a done Ignore Completed",
		"node-a failed Ignore Completed", "node-a leaving Ignore Completed", "node-a running Wait WaitCompleted",
		"node-a later Wait LowerOrder",
	}
	if diff := cmp.Diff(want, lines(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if done := (Planner{Rules: rules}).Plan([]NodePods{{Node: testNode, Pods: pods[:4]}}, Facts{}); !done.Done() {
		t.Errorf("want done, got %v", lines(done))
	}
}

func TestSummary_NamesPodsWhoseCompletionIsWaitedForLater(t *testing.T) {
	byName := func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if pod.Name == "early" {
			prev.Order = -1
			return prev, nil
		}
		return waitCompleted(pod, prev)
	}
	plan := Planner{Rules: with(byName)}.Plan([]NodePods{{Node: testNode, Pods: []*corev1.Pod{newPod("job"), newPod("early")}}}, Facts{})
	want := "* Pod default/early: to be evicted\n" +
		"After above Pods have been removed from the Node, waiting for the following Pods to complete without eviction: default/job"
	if diff := cmp.Diff(want, plan.Summary(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Counts{Total: 2, Evictable: 1, Waiting: 1}, plan.Counts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
