package drain

import (
	"hash/fnv"
	"math"

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

// OrderByPriority is a [Rule]: Pods of a lower priority leave first. The priority is added to the order of earlier rules.
func OrderByPriority(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	prev.Order = int32(min(max(int64(prev.Order)+int64(priority(pod)), math.MinInt32), math.MaxInt32))
	return prev, nil
}

// OneAtATimeWithVolumes is a [Rule]: Pods with PersistentVolumeClaims or ephemeral volumes leave one after the other, after the Pods
// without and before those of [SystemCriticalLast], so that a storage system detaches and attaches one volume at a time. It replaces the
// orders of earlier rules, except those of Pods whose completion is waited for; the order among the Pods follows from their UIDs. A Pod
// that cannot go keeps those behind it. Use it as the last rule about orders but SystemCriticalLast.
func OneAtATimeWithVolumes(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	switch {
	case len(claimsOf(pod)) == 0:
	case pod.DeletionTimestamp != nil: // the others wait for it
		prev.Order = criticalRoom
	case prev.Action != Wait:
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(pod.UID)) // never fails
		prev.Order = criticalRoom + 1 + int32(hash.Sum32()%(criticalRoom-1))
	}
	return prev, nil
}
