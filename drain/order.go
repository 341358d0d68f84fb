package drain

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// When returns a [Rule] that applies rule only to the Pods that match. match must not change the Pod.
func When(match func(*corev1.Pod) bool, rule Rule) Rule {
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		if !match(pod) {
			return prev, nil
		}
		return rule(pod, prev)
	}
}

// Selecting returns a match for [When]: Pods whose labels the selector matches, in all Namespaces.
func Selecting(selector labels.Selector) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) }
}

// SetOrder returns a [Rule] that sets only the order. It replaces the order of earlier rules. Put rules about orders before the rules that
// decide, as in append([]Rule{...}, DefaultRules()...).
func SetOrder(order int32) Rule {
	return func(_ *corev1.Pod, prev Verdict) (Verdict, error) {
		prev.Order = order
		return prev, nil
	}
}

// OrderByLabel returns a [Rule] that reads the order from the value of a label, a decimal number in the range of int32. Pods without the
// label keep the order of earlier rules. Any other value is an error, which denies the Pod: the label may be there to prevent its eviction
// in another order.
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

// OrderByPriority returns a [Rule] that drains Pods of a lower priority first. A Pod without spec.priority has priority 0, as in the
// scheduler.
//
// Without bounds, every priority is an order of its own. Bounds make fewer orders: the order of a Pod is the number of bounds that its
// priority reaches, so that OrderByPriority(0, 1000) gives order 0 below 0, order 1 below 1000 and order 2 above. Bounds may be passed in
// any order.
//
// The result is added to the order of earlier rules and limited to the range of int32, so that it does not overflow. A later SetOrder
// replaces it.
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

// Orders of system-critical Pods are in the upper quarter of int32, with room for positive and negative orders of earlier rules.
const (
	criticalOrders = 1 << 30
	criticalRoom   = 1 << 29
)

// SystemCriticalLast is a [Rule]: every system-critical Pod (see [IsSystemCritical]) leaves after all other Pods, whatever their orders,
// because the others may need DNS, the network and storage to shut down. Orders from -2^29 to 2^29-1 keep their distance among the critical
// Pods, and orders up to 2^30-1 among the others; orders beyond are limited to these values. Use it once, as the last rule about orders.
func SystemCriticalLast(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if IsSystemCritical(pod) {
		prev.Order = criticalOrders + criticalRoom + min(max(prev.Order, -criticalRoom), criticalRoom-1)
	} else {
		prev.Order = min(prev.Order, criticalOrders-1)
	}
	return prev, nil
}

// systemCriticalPriority is the lowest priority that is reserved for Kubernetes (scheduling.k8s.io/v1).
const systemCriticalPriority = 2_000_000_000

// IsSystemCritical reports that a Pod has the priority class system-cluster-critical or system-node-critical, or a priority that only these
// classes may have.
func IsSystemCritical(pod *corev1.Pod) bool {
	switch pod.Spec.PriorityClassName {
	case "system-cluster-critical", "system-node-critical":
		return true
	default:
		return priority(pod) >= systemCriticalPriority
	}
}

// priority of a Pod without one is 0, as in the scheduler.
func priority(pod *corev1.Pod) int32 {
	return ptr.Deref(pod.Spec.Priority, 0)
}

// addOrder adds within the range of int32.
func addOrder(a, b int32) int32 {
	return int32(min(max(int64(a)+int64(b), math.MinInt32), math.MaxInt32))
}
