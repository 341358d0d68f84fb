package contract

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of provider objects that their owners mirror.
const (
	// ConditionReady is the one of an InfraMachine, a BootstrapConfig and an InfraMachinePool.
	ConditionReady = "Ready"
	// ConditionAvailable is the one of a ControlPlane.
	ConditionAvailable = "Available"
)

// has reports whether there is something at a place, and nothing was wrong until here.
func (r *reader) has(at Path) bool {
	_, found, err := lookup(at.segments, r.obj)
	return found && err == nil && r.err == nil
}

// either is true when one of two places says so. The second is looked at only while the first does not: while a provider
// moves from one contract to the next it may write one of them, or lag behind in one.
func (r *reader) either(own, other Field[bool]) bool {
	return value(r, own).Or(false) || value(r, other).Or(false)
}

// firstSaid is what the first of two places says that is not empty, or an empty text that one of them holds.
func (r *reader) firstSaid(own, other Field[string]) Opt[string] {
	v := value(r, own)
	if v.value != "" {
		return v
	}
	if w := value(r, other); w.value != "" || !v.found {
		return w
	}
	return v
}

// spare puts an error aside that holds nothing up: reading goes on as if the value was absent. Values below a place of
// another type say the same about it, once is enough.
func (r *reader) spare(into *error) {
	if r.err == nil {
		return
	}
	if *into == nil || !strings.Contains((*into).Error(), r.err.Error()) {
		*into = errors.Join(*into, r.err)
	}
	r.err = nil
}

// spareUnless spares the error about a value that is not due yet.
func (r *reader) spareUnless(due bool, into *error) {
	if !due {
		r.spare(into)
	}
}

// mirrored reads the condition that an owner mirrors. One that cannot be read must not hold up the owner, because
// conditions are for people: it becomes Unknown and says what is wrong with it. Cluster API mirrors such conditions in the
// same way, where it does not panic.
func mirrored(f ConditionsField, obj map[string]any, conditionType string) Opt[metav1.Condition] {
	c, found, err := f.Find(obj, conditionType)
	if err != nil {
		return Some(metav1.Condition{
			Type: conditionType, Status: metav1.ConditionUnknown, Reason: ReasonInvalidCondition, Message: err.Error(),
		})
	}
	return Opt[metav1.Condition]{value: c, found: found}
}
