package drain

import (
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
)

// volumeOrders is the first order of Pods with volumes, and the number of such orders.
const volumeOrders = 1 << 29

// OneAtATimeWithVolumes is a [Rule]: Pods with PersistentVolumeClaims or ephemeral volumes leave one after the other, so that a storage
// system detaches and attaches one volume at a time. They leave after the Pods without volumes. The rule replaces the orders of earlier
// rules, except those of Pods whose completion is waited for; the order among the Pods follows from their UIDs. A blocked Pod blocks those
// after it. Use it as the last rule about orders.
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
