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
	// MadeFromAnnotation of what a Machine refers to, and of a set that a deployment has made, is a digest of the template.
	MadeFromAnnotation = "machinist.dev/made-from"
)

// Stamp returns the annotations of what is created for a slot.
func Stamp(set types.UID, slot int64) map[string]string {
	return map[string]string{SetUIDAnnotation: string(set), SlotAnnotation: strconv.FormatInt(slot, 10)}
}

// IsPartOf judges an object that exists under the name of a slot by its stamp alone: of what a Machine refers to, the Machine may have
// become the controller already. One of another slot, or in deletion, is none: the slot is never used again, and the set does not wait.
func IsPartOf(obj metav1.Object, set types.UID, slot int64) bool {
	have := obj.GetAnnotations()
	return obj.GetDeletionTimestamp() == nil && have[SetUIDAnnotation] == string(set) && have[SlotAnnotation] == strconv.FormatInt(slot, 10)
}
