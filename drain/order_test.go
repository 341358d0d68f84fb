package drain

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func ofPriority(p int32) podOption { return func(pod *corev1.Pod) { pod.Spec.Priority = &p } }
func ofClass(name string) podOption {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = name }
}
func labeled(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{key: value} }
}
func annotated(key, value string) podOption {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
}

// with returns the default rules after rules about orders.
func with(rules ...Rule) []Rule { return append(rules, DefaultRules()...) }

func TestOrderRules_GiveOrdersThatNeverOverflow(t *testing.T) {
	const lowest, highest = math.MinInt32, math.MaxInt32
	db := labels.SelectorFromSet(labels.Set{"app": "db"})
	cases := map[string]struct {
		rules []Rule
		pod   *corev1.Pod
		want  int32
	}{
		"no rule, no order":                        {nil, newPod("p", ofPriority(7)), 0},
		"a selected pod has the order of its rule": {[]Rule{When(Selecting(db), SetOrder(5))}, newPod("p", labeled("app", "db")), 5},
		"the others keep theirs":                   {[]Rule{SetOrder(1), When(Selecting(db), SetOrder(5))}, newPod("p"), 1},
		"a label says the order":                   {[]Rule{OrderByLabel("order")}, newPod("p", labeled("order", "-7")), -7},
		"an annotation says the order":             {[]Rule{OrderByAnnotation("order")}, newPod("p", annotated("order", "2147483647")), highest},
		"without the annotation the order stays":   {[]Rule{SetOrder(3), OrderByAnnotation("order")}, newPod("p"), 3},
		"a priority is an order":                   {[]Rule{OrderByPriority()}, newPod("p", ofPriority(1000)), 1000},
		"no priority is priority 0":                {[]Rule{OrderByPriority()}, newPod("p"), 0},
		"a priority is added to an order":          {[]Rule{SetOrder(10), OrderByPriority()}, newPod("p", ofPriority(-5)), 5},
		"a sum stops at the upper end":             {[]Rule{SetOrder(highest), OrderByPriority()}, newPod("p", ofPriority(2000001000)), highest},
		"a sum stops at the lower end":             {[]Rule{SetOrder(lowest), OrderByPriority()}, newPod("p", ofPriority(lowest)), lowest},
		"an order after it replaces it":            {[]Rule{OrderByPriority(), SetOrder(1)}, newPod("p", ofPriority(9)), 1},
		"below all bounds is tier 0":               {[]Rule{OrderByPriority(1000, 0)}, newPod("p", ofPriority(-1)), 0},
		"a bound begins its tier":                  {[]Rule{OrderByPriority(1000, 0)}, newPod("p"), 1},
		"a bound that is named twice is one":       {[]Rule{OrderByPriority(0, 0, 1000)}, newPod("p", ofPriority(1000)), 2},
		"the lowest priority may be a bound":       {[]Rule{OrderByPriority(lowest)}, newPod("p", ofPriority(lowest)), 1},
		"critical pods come last":                  {[]Rule{SystemCriticalLast}, newPod("p", ofClass("system-cluster-critical")), 3 << 29},
		"a critical priority is enough":            {[]Rule{SystemCriticalLast}, newPod("p", ofPriority(2000000000)), 3 << 29},
		"the priority below is not critical":       {[]Rule{SystemCriticalLast}, newPod("p", ofPriority(1999999999)), 0},
		"critical pods keep an order among them": {[]Rule{SetOrder(-2), SystemCriticalLast}, newPod("p", ofClass("system-node-critical")),
			3<<29 - 2},
		"a high order does not pass critical pods": {[]Rule{SetOrder(highest), SystemCriticalLast}, newPod("p"), 1<<30 - 1},
		"a critical pod of the highest order": {[]Rule{SetOrder(highest), SystemCriticalLast}, newPod("p", ofPriority(2000001000)),
			highest},
		"a critical pod of the lowest order":        {[]Rule{SetOrder(lowest), SystemCriticalLast}, newPod("p", ofPriority(2000001000)), 1 << 30},
		"a finished pod has an order as well":       {[]Rule{SetOrder(4)}, newPod("p", inPhase(corev1.PodFailed)), 4},
		"a terminating pod has an order as well":    {[]Rule{SetOrder(4)}, newPod("p", terminating), 4},
		"an ignored pod has an order as well":       {[]Rule{SetOrder(4)}, newPod("p", mirror), 4},
		"a rule for none of the pods says nothing":  {[]Rule{When(func(*corev1.Pod) bool { return false }, Skip)}, newPod("p"), 0},
		"a skipped pod has an order as well":        {[]Rule{SetOrder(4), Skip}, newPod("p"), 4},
		"a completed pod keeps its order":           {[]Rule{SetOrder(4), WaitCompleted}, newPod("p", inPhase(corev1.PodFailed)), 4},
		"a pod that is to complete keeps its order": {[]Rule{SetOrder(4), WaitCompleted}, newPod("p"), 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Decide(tc.pod, with(tc.rules...)); got.Order != tc.want || got.Action == Deny {
				t.Errorf("want order %d, got %+v", tc.want, got)
			}
		})
	}
}

func TestOrderRules_TextThatIsNoOrderHoldsThePod(t *testing.T) {
	for _, text := range []string{"", "first", "1.5", "2147483648", "0x10"} {
		got := Decide(newPod("p", annotated("order", text)), with(OrderByAnnotation("order")))
		require.Equal(t, ReasonRuleFailed, got.Reason, "%q", text)
		require.Contains(t, got.Message, "annotation order: want a drain order from -2147483648 to 2147483647")
	}
}

func TestOrderByPriority_NeverTurnsAnOrderRound(t *testing.T) {
	priorities := []int32{math.MinInt32, -1 << 29, -1, 0, 1, 1000, 1 << 29, 1_000_000_000, 2_000_000_000, 2_000_001_000, math.MaxInt32}
	for _, before := range priorities {
		for _, rules := range [][]Rule{
			{SetOrder(before), OrderByPriority()},
			{SetOrder(before), OrderByPriority(0, 1000)},
			{SetOrder(before), OrderByPriority(), SystemCriticalLast},
		} {
			last := int32(math.MinInt32)
			for _, p := range priorities {
				got := Decide(newPod("p", ofPriority(p)), with(rules...)).Order
				if got < last {
					t.Fatalf("after order %d, priority %d goes before a lower one: %d < %d", before, p, got, last)
				}
				last = got
			}
		}
	}
}
