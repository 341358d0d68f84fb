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

// Verdict says what an object is that already has the name of an object to create.
type Verdict uint8

// Values of Verdict.
const (
	// Foreign: it has another owner, or belongs to another slot, or is being deleted. The slot is never used again, and the set does not
	// wait.
	Foreign Verdict = iota
	// Own: it is what was to be created.
	Own
)

// JudgeMachine says whether a Machine that exists under the name of a slot is the one of this slot: the set controls it, and its
// stamp names the slot.
func JudgeMachine(obj metav1.Object, set types.UID, slot int64) Verdict {
	controller := metav1.GetControllerOf(obj)
	if controller == nil || controller.UID != set {
		return Foreign
	}
	return JudgePart(obj, set, slot)
}

// JudgePart judges an object that a Machine refers to by its stamp alone: the Machine may have become its controller already.
func JudgePart(obj metav1.Object, set types.UID, slot int64) Verdict {
	if obj.GetDeletionTimestamp() != nil {
		return Foreign
	}
	have := obj.GetAnnotations()
	for key, want := range Stamp(set, slot) {
		if have[key] != want {
			return Foreign
		}
	}
	return Own
}
