package drain

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func ofPriority(p int32) podOption { return func(pod *corev1.Pod) { pod.Spec.Priority = &p } }
func labeled(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{key: value} }
}
func annotated(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
}

// setOrder replaces the order of earlier rules.
func setOrder(order int32) Rule {
	return func(_ *corev1.Pod, prev Verdict) (Verdict, error) {
		prev.Order = order
		return prev, nil
	}
}

// when applies a rule only to the pods that match.
func when(match func(*corev1.Pod) bool, rule Rule) Rule {
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if !match(pod) {
			return prev, nil
		}
		return rule(pod, prev)
	}
}

// orderInText reads the order from an annotation, and fails if that is no number.
func orderInText(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	text, found := pod.Annotations["order"]
	if !found {
		return prev, nil
	}
	order, err := strconv.ParseInt(text, 10, 32)
	prev.Order = int32(order)
	return prev, err
}

// with returns the default rules after rules about orders.
func with(rules ...Rule) []Rule { return append(rules, DefaultRules()...) }

func TestOrderRules_GiveOrdersThatNeverOverflow(t *testing.T) {
	const highest = math.MaxInt32
	cases := map[string]struct {
		rules []Rule
		pod   *corev1.Pod
		want  int32
	}{
		"no rule, no order":                         {nil, newPod("p", ofPriority(7)), 0},
		"a low priority leaves first":               {[]Rule{setOrder(-2), OrderByPriority}, newPod("p", ofPriority(7)), 5},
		"no priority is 0":                          {[]Rule{setOrder(3), OrderByPriority}, newPod("p"), 3},
		"priorities do not overflow":                {[]Rule{setOrder(highest), OrderByPriority}, newPod("p", ofPriority(7)), highest},
		"a pod without volumes keeps its order":     {[]Rule{setOrder(4), OneAtATimeWithVolumes}, newPod("p"), 4},
		"a terminating pod with a volume is first":  {[]Rule{OneAtATimeWithVolumes}, newPod("p", claiming("c"), terminating), 1 << 29},
		"a finished pod has an order as well":       {[]Rule{setOrder(4)}, newPod("p", inPhase(corev1.PodFailed)), 4},
		"a terminating pod has an order as well":    {[]Rule{setOrder(4)}, newPod("p", terminating), 4},
		"an ignored pod has an order as well":       {[]Rule{setOrder(4)}, newPod("p", mirror), 4},
		"a skipped pod has an order as well":        {[]Rule{setOrder(4), SkipSelected(labels.Everything())}, newPod("p"), 4},
		"a completed pod keeps its order":           {[]Rule{setOrder(4), waitCompleted}, newPod("p", inPhase(corev1.PodFailed)), 4},
		"a pod that is to complete keeps its order": {[]Rule{setOrder(4), waitCompleted}, newPod("p"), 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Decide(tc.pod, with(tc.rules...)); got.Order != tc.want || got.Action == Deny {
				t.Errorf("want order %d, got %+v", tc.want, got)
			}
		})
	}
}

func TestOneAtATimeWithVolumes(t *testing.T) {
	pods := []*corev1.Pod{newPod("plain"), newPod("system", ofPriority(2000001000))}
	for i := range 20 {
		pods = append(pods, newPod(fmt.Sprintf("data-%d", i), claiming("c")))
	}
	rules := append(ClusterAPIRules(nil, nil), OrderByPriority, OneAtATimeWithVolumes)
	leave := func() (left []string) {
		plan := Planner{Rules: rules}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{})
		for _, d := range plan.Decisions {
			if d.Action.leaves() {
				left = append(left, d.Pod.Name)
			}
		}
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return slices.Contains(left, pod.Name) })
		return left
	}
	require.Equal(t, []string{"plain"}, leave())
	for range 20 {
		require.Len(t, leave(), 1)
	}
	require.Equal(t, []string{"system"}, leave())
}
