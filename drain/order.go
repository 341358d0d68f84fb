package drain

import (
	"hash/fnv"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// volumeOrders is the first order of Pods with volumes, and the number of such orders. All are below the priorities that are reserved for
// Kubernetes.
const volumeOrders = 1 << 29

// priority returns the priority of a Pod; the default is 0, as in the scheduler.
func priority(pod *corev1.Pod) int32 {
	return ptr.Deref(pod.Spec.Priority, 0)
}

// OrderByPriority is a [Rule]: Pods of a lower priority leave first, and system-critical ones last, because other Pods may need DNS, the
// network and storage to shut down. The priority is added to the order of earlier rules.
func OrderByPriority(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	prev.Order = int32(min(max(int64(prev.Order)+int64(priority(pod)), math.MinInt32), math.MaxInt32))
	return prev, nil
}

// OneAtATimeWithVolumes is a [Rule]: Pods with PersistentVolumeClaims or ephemeral volumes leave one after the other, so that a storage
// system detaches and attaches one volume at a time. They leave after the Pods without volumes and before those that are system-critical by
// [OrderByPriority]. The rule replaces the orders of earlier rules, except those of Pods whose completion is waited for; the order among
// the Pods follows from their UIDs. A blocked Pod blocks those after it. Use it as the last rule about orders.
func OneAtATimeWithVolumes(pod *corev1.Pod, prev Verdict) (Verdict, error) {
	switch {
	case len(claimsOf(pod)) == 0:
	case pod.DeletionTimestamp != nil: // the others wait for it
		prev.Order = volumeOrders
	case prev.Action != Wait:
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(pod.UID)) // never fails
		prev.Order = volumeOrders + 1 + int32(hash.Sum32()%(volumeOrders-1))
	}
	return prev, nil
}
