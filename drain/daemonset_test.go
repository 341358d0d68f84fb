package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func toleratesAll(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func TestDaemonSetDrain_KarpentersFourTiers(t *testing.T) {
	taint := corev1.Taint{Key: "example.com/draining", Effect: corev1.TaintEffectNoSchedule}
	daemon := ownedBy("apps/v1", "DaemonSet")
	critical := ofClass("system-node-critical")
	rules := []Rule{
		IgnoreMirrorPods, DaemonSetDrain{Taints: []corev1.Taint{taint}, Offset: 1}.Rule(), SystemCriticalLast,
		WaitForTerminating, EvictFinished, EvictRest,
	}
	pods := []*corev1.Pod{
		newPod("d-critical-ds", critical, daemon), newPod("c-critical", critical), newPod("b-ds", daemon), newPod("a"),
		newPod("e-stays", daemon, toleratesAll), newPod("f-failed", daemon, inPhase(corev1.PodFailed)),
	}
	wants := [][]string{
		{"a Evict", "b-ds Wait", "c-critical Wait", "d-critical-ds Wait"},
		{"b-ds Evict", "c-critical Wait", "d-critical-ds Wait"},
		{"c-critical Evict", "d-critical-ds Wait"},
		{"d-critical-ds Evict"},
		nil,
	}
	for round, want := range wants {
		plan := Planner{Rules: rules}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{})
		var got []string
		gone := map[*corev1.Pod]bool{}
		for _, d := range plan.Blocking() {
			got = append(got, d.Pod.Name+" "+d.Action.String())
			gone[d.Pod] = d.Action == Evict
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d (-want +got):\n%s", round, diff)
		}
		var left []*corev1.Pod
		for _, pod := range pods {
			if !gone[pod] {
				left = append(left, pod)
			}
		}
		pods = left
	}
}

func TestDaemonSetDrain_DrainsOnlyWhatDoesNotComeBack(t *testing.T) {
	noSchedule := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	prefer := corev1.Taint{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}
	tolerating := func(tolerations ...corev1.Toleration) podOption {
		return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
	}
	cases := map[string]struct {
		drain DaemonSetDrain
		pod   podOption
		want  Action
	}{
		"no taint keeps it away":          {DaemonSetDrain{}, tolerating(), Ignore},
		"all are asked for":               {DaemonSetDrain{All: true}, tolerating(), Evict},
		"a finished one is never drained": {DaemonSetDrain{All: true}, inPhase(corev1.PodSucceeded), Ignore},
		"it does not tolerate the taint":  {DaemonSetDrain{Taints: []corev1.Taint{noSchedule}}, tolerating(), Evict},
		"a wish keeps nothing away":       {DaemonSetDrain{Taints: []corev1.Taint{prefer}}, tolerating(), Ignore},
		"it tolerates one of two": {
			DaemonSetDrain{Taints: []corev1.Taint{{Key: "o", Effect: corev1.TaintEffectNoExecute}, noSchedule}},
			tolerating(corev1.Toleration{Key: "o", Operator: "Exists"}), Evict},
		"it tolerates the key": {DaemonSetDrain{Taints: []corev1.Taint{noSchedule}},
			tolerating(corev1.Toleration{Key: "k", Operator: "Exists"}), Ignore},
		"it tolerates the value": {DaemonSetDrain{Taints: []corev1.Taint{noSchedule}},
			tolerating(corev1.Toleration{Key: "k", Value: "v", Effect: "NoSchedule"}), Ignore},
		"it tolerates another value": {DaemonSetDrain{Taints: []corev1.Taint{noSchedule}},
			tolerating(corev1.Toleration{Key: "k", Value: "w"}), Evict},
		"it tolerates another effect": {DaemonSetDrain{Taints: []corev1.Taint{noSchedule}},
			tolerating(corev1.Toleration{Key: "k", Operator: "Exists", Effect: "NoExecute"}), Evict},
		"an operator to come is taken for a yes": {DaemonSetDrain{Taints: []corev1.Taint{noSchedule}},
			tolerating(corev1.Toleration{Key: "k", Operator: "Gt", Value: "1"}), Ignore},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rules := append([]Rule{tc.drain.Rule()}, WaitForTerminating, EvictFinished, EvictRest)
			if got := Decide(newPod("p", ownedBy("apps/v1", "DaemonSet"), tc.pod), rules); got.Action != tc.want {
				t.Errorf("want %s, got %+v", tc.want, got)
			}
		})
	}
	before := DaemonSetDrain{All: true, Offset: -1}.Rule()
	got := Decide(newPod("p", ownedBy("apps/v1", "DaemonSet")), []Rule{before, EvictRest})
	require.Equal(t, int32(-1), got.Order, "DaemonSet pods may go before the others as well")
	got = Decide(newPod("p"), []Rule{before, EvictRest})
	require.Equal(t, int32(0), got.Order, "the offset is for DaemonSet pods only")
}
