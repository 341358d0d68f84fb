package drain

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// When returns a [Rule] that applies rule to the pods that match and has no opinion about the others. match must not change
// the pod.
func When(match func(*corev1.Pod) bool, rule Rule) Rule {
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if !match(pod) {
			return prev, nil
		}
		return rule(pod, prev)
	}
}

// Selecting returns a match for [When]: pods whose labels the selector matches, in all namespaces.
func Selecting(selector labels.Selector) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) }
}

// SetOrder returns a [Rule] that gives pods an order and decides nothing else. It replaces the order of the rules before
// it. Rules about orders go before the rules that decide, as in append([]Rule{...}, DefaultRules()...).
func SetOrder(order int32) Rule {
	return func(_ *corev1.Pod, prev Verdict) (Verdict, error) {
		prev.Order = order
		return prev, nil
	}
}

// OrderByLabel returns a [Rule] that takes the order from the value of a label: a decimal number that an int32 can hold.
// Pods without the label keep the order of the rules before. A value that is no such number is an error, which holds the
// pod: evicting it out of its order may be what the label is there to prevent.
func OrderByLabel(key string) Rule {
	return orderByText("label", key, func(pod *corev1.Pod) map[string]string { return pod.Labels })
}

// OrderByAnnotation is [OrderByLabel] for an annotation.
func OrderByAnnotation(key string) Rule {
	return orderByText("annotation", key, func(pod *corev1.Pod) map[string]string { return pod.Annotations })
}

func orderByText(kind, key string, of func(*corev1.Pod) map[string]string) Rule {
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		text, found := of(pod)[key]
		if !found {
			return prev, nil
		}
		order, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return prev, fmt.Errorf("%s %s: want a drain order from %d to %d, found %.64q; correct or remove the %s",
				kind, key, math.MinInt32, math.MaxInt32, text, kind)
		}
		prev.Order = int32(order)
		return prev, nil
	}
}

// OrderByPriority returns a [Rule] by which pods of a lower priority go first: what is most important lives longest. A pod
// without spec.priority has priority 0, as in the scheduler.
//
// Without bounds every priority is an order of its own, and each waits until the pods of the one below are gone. Bounds make
// fewer tiers: a pod's tier is the number of bounds that its priority reaches, so that OrderByPriority(0, 1000) makes tier 0
// below 0, tier 1 below 1000 and tier 2 above. Bounds may come in any order.
//
// The result is added to the order of the rules before it and stops at the ends of int32, so that it never overflows and never
// turns an order round. A SetOrder after it replaces it.
func OrderByPriority(bounds ...int32) Rule {
	tiers := slices.Compact(slices.Sorted(slices.Values(bounds)))
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		rank := priority(pod)
		if len(tiers) > 0 {
			reached := sort.Search(len(tiers), func(i int) bool { return tiers[i] > rank })
			rank = int32(min(reached, math.MaxInt32))
		}
		prev.Order = addOrder(prev.Order, rank)
		return prev, nil
	}
}

// Orders of system-critical pods lie in the upper quarter of int32, with room on both sides of 0 for orders given before.
const (
	criticalOrders = 1 << 30
	criticalRoom   = 1 << 29
)

// SystemCriticalLast is a [Rule]: whatever orders the rules before gave, every system-critical pod (see [IsSystemCritical])
// comes after every other pod, because the others may need DNS, the network and storage to end in peace. Orders from -2^29 to
// 2^29-1 keep their distance among the critical pods, and up to 2^30-1 among the others; what is beyond shares the last
// tier. Use it once, as the last rule about orders.
func SystemCriticalLast(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if IsSystemCritical(pod) {
		prev.Order = criticalOrders + criticalRoom + min(max(prev.Order, -criticalRoom), criticalRoom-1)
	} else {
		prev.Order = min(prev.Order, criticalOrders-1)
	}
	return prev, nil
}

// systemCriticalPriority is where the priorities begin that Kubernetes keeps for itself (scheduling.k8s.io/v1).
const systemCriticalPriority = 2_000_000_000

// IsSystemCritical says that a pod has the priority class system-cluster-critical or system-node-critical, or a priority that
// only such classes may have.
func IsSystemCritical(pod *corev1.Pod) bool {
	switch pod.Spec.PriorityClassName {
	case "system-cluster-critical", "system-node-critical":
		return true
	default:
		return priority(pod) >= systemCriticalPriority
	}
}

// priority of a pod without one is 0, as in the scheduler.
func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// addOrder adds without wrapping around.
func addOrder(a, b int32) int32 {
	return int32(min(max(int64(a)+int64(b), math.MinInt32), math.MaxInt32))
}
