package drain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Orders of system-critical Pods are in the upper quarter of int32, with room for positive and negative orders of earlier rules.
const (
	criticalOrders = 1 << 30
	criticalRoom   = 1 << 29
)

// SystemCriticalLast is a [Rule]: every system-critical Pod leaves after all other Pods, whatever their orders, because the others may
// need DNS, the network and storage to shut down. Orders from -2^29 to 2^29-1 keep their distance among the critical Pods, and orders up to
// 2^30-1 among the others; orders beyond are limited to these values. Use it once, as the last rule about orders.
func SystemCriticalLast(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	if isSystemCritical(pod) {
		prev.Order = criticalOrders + criticalRoom + min(max(prev.Order, -criticalRoom), criticalRoom-1)
	} else {
		prev.Order = min(prev.Order, criticalOrders-1)
	}
	return prev, nil
}

// systemCriticalPriority is the lowest priority that is reserved for Kubernetes (scheduling.k8s.io/v1).
const systemCriticalPriority = 2_000_000_000

// isSystemCritical reports that a Pod has the priority class system-cluster-critical or system-node-critical, or a priority that only these
// classes may have.
func isSystemCritical(pod *corev1.Pod) bool {
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
