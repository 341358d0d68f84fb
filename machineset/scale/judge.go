package scale

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SetUIDAnnotation and SlotAnnotation of everything that a set creates say for which slot of which set it was created.
const (
	SetUIDAnnotation = "machinist.dev/set-uid"
	SlotAnnotation   = "machinist.dev/slot"
)

// Stamp returns the annotations of what is created for a slot.
func Stamp(set types.UID, slot int64) map[string]string {
	return map[string]string{SetUIDAnnotation: string(set), SlotAnnotation: strconv.FormatInt(slot, 10)}
}

// IsMachineOf reports whether a Machine that exists under the name of a slot is the one of this slot: the set controls it, and its stamp
// names the slot. Otherwise it has another owner, or belongs to another slot, or is being deleted: the slot is never used again, and the
// set does not wait.
func IsMachineOf(obj metav1.Object, set types.UID, slot int64) bool {
	controller := metav1.GetControllerOf(obj)
	return controller != nil && controller.UID == set && IsPartOf(obj, set, slot)
}

// IsPartOf judges an object that a Machine refers to by its stamp alone: the Machine may have become its controller already.
func IsPartOf(obj metav1.Object, set types.UID, slot int64) bool {
	have := obj.GetAnnotations()
	return obj.GetDeletionTimestamp() == nil && have[SetUIDAnnotation] == string(set) && have[SlotAnnotation] == strconv.FormatInt(slot, 10)
}
