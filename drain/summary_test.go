package drain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestSummary_SpeaksClusterAPIsLines(t *testing.T) {
	order := func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if strings.HasPrefix(pod.Name, "late") {
			prev.Order = 10
		}
		if pod.Name == "job" {
			return Verdict{Action: Wait, Reason: "WaitCompleted"}, nil
		}
		return prev, nil
	}
	other := func(p *corev1.Pod) { p.Labels = nil }
	pods := []*corev1.Pod{
		newPod("t5", terminating), newPod("t1", terminating), newPod("t2", terminating), newPod("t4", terminating), newPod("t3", terminating),
		newPod("a"), newPod("b"), newPod("late1", other), newPod("job", other), newPod("webhook", other), newPod("sent", other),
	}
	plan := Planner{Rules: append([]Rule{order}, DefaultRules()...)}.Plan(
		[]NodePods{{Node: testNode, Pods: pods}},
		Facts{
			Budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 0)},
			Held: map[types.UID]Hold{
				"uid-webhook": {Reason: ReasonForbidden, Message: `admission webhook "x" denied the request`},
				"uid-sent":    {Reason: ReasonEvictionRequested},
			},
		})
	want := `* Pods default/t1, default/t2, default/t3, ... (2 more): deletionTimestamp set, but still not removed from the Node
* Pod default/sent: eviction requested
* Pods default/a, default/b: cannot evict pod as it would violate the pod's disruption budget. ` +
		`The disruption budget pdb needs 2 healthy pods and has 2 currently
* Pod default/webhook: failed to evict Pod, admission webhook "x" denied the request
* Pod default/job: waiting for completion
After above Pods have been removed from the Node, the following Pods will be evicted: default/late1`
	if diff := cmp.Diff(want, plan.Summary(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSummary_IsBounded(t *testing.T) {
	var pods []*corev1.Pod
	held := map[types.UID]Hold{}
	for i := range 300 {
		pod := newPod(fmt.Sprintf("p%03d", i))
		pods = append(pods, pod)
		held[pod.UID] = Hold{Reason: ReasonServerError, Message: fmt.Sprintf("%03d %s", i, strings.Repeat("ü", 5000))}
	}
	plan := Planner{}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{Held: held})
	got := plan.Summary(0)
	if lines := strings.Count(got, "\n") + 1; lines != 6 || len(got) > 4096 || !strings.HasSuffix(got, "* 295 Pods with other issues") {
		t.Errorf("want 6 lines and at most 4096 bytes, got %d and %d:\n%s", lines, len(got), got)
	}
	if got != plan.Summary(0) {
		t.Error("want the same text twice")
	}
}

func TestSummary_ClaimsNoRequestOfAPlanThatWasNotCarriedOut(t *testing.T) {
	remove := func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if pod.Name == "b" {
			return Verdict{Action: Delete, Reason: "Late"}, nil
		}
		return prev, nil
	}
	pods := []*corev1.Pod{newPod("a"), newPod("b"), newPod("c")}
	plan := Planner{Rules: append([]Rule{remove}, evictRest)}.Plan([]NodePods{{Node: testNode, Pods: pods}},
		Facts{Held: map[types.UID]Hold{"uid-c": {Reason: ReasonEvictionRequested}}})
	want := "* Pod default/c: eviction requested\n* Pod default/a: to be evicted\n* Pod default/b: to be deleted"
	if diff := cmp.Diff(want, plan.Summary(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
