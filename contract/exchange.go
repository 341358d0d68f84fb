package contract

import (
	"errors"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exchange reads the fields of a layout, or writes changes to them, and stores the first error, so that callers need no error checks. A
// layout has one list of its fields for both directions. While writing, all fields read as absent, and so they do after an error.
type exchange struct {
	obj    map[string]any
	err    error
	writes bool
}

// load reads a value into a variable of a state; see Field.read.
func load[T fieldValue](x *exchange, f Field[T], into *T) (found bool) {
	switch {
	case x.writes:
		return false
	case x.err != nil: // a state that is used again must not have values of two objects
		var none T
		*into = none
		return false
	}
	found, x.err = f.read(x.obj, into)
	return found
}

func value[T fieldValue](x *exchange, f Field[T]) (v Opt[T]) {
	v.found = load(x, f, &v.value)
	return v
}

func text(x *exchange, f Field[string]) string { return value(x, f).Or("") }

// put writes a change. A layout without a place for the value drops it.
func put[T fieldContent](x *exchange, f Field[T], c Change[T]) {
	if x.err != nil || !x.writes || c.Keeps() || f.path.IsZero() {
		return
	}
	if v, sets := c.Value(); sets {
		x.err = write(f, x.obj, v)
		return
	}
	x.err = f.path.clear(x.obj)
}

// plain exchanges a value for which zero and absent are equal.
func plain[T fieldContent](x *exchange, f Field[T], state *T, c Change[T]) {
	load(x, f, state)
	put(x, f, orClear(c))
}

// distinct exchanges a value for which zero and absent are different.
func distinct[T fieldContent](x *exchange, f Field[T], state *Opt[T], c Change[T]) {
	*state = value(x, f)
	put(x, f, c)
}

func mapped[A, B any](c Change[A], f func(A) B) Change[B] {
	v, set := c.Value()
	switch {
	case set:
		return SetTo(f(v))
	case c.Clears():
		return Cleared[B]()
	default:
		return Change[B]{}
	}
}

// orClear turns a change to the zero value, or to an empty list, into a removal: where the state does not distinguish zero from absent, the
// object must not either, and the schemas of Machines reject empty texts.
func orClear[T any](c Change[T]) Change[T] {
	if c.kind != changeSet {
		return c
	}
	if v := reflect.ValueOf(c.value); v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return Cleared[T]()
	}
	return c
}

func (x *exchange) conditions(f ConditionsField, state *[]metav1.Condition, upsert []metav1.Condition, remove []string) {
	switch {
	case x.err != nil:
	case x.writes:
		x.err = f.write(x.obj, upsert, remove)
	default:
		*state, x.err = f.Get(x.obj, *state)
	}
}

// Conditions of provider objects that their owners mirror.
const (
	// ConditionReady is the condition of an InfraMachine, a BootstrapConfig and an InfraMachinePool.
	ConditionReady = "Ready"
	// ConditionAvailable is the condition of a ControlPlane.
	ConditionAvailable = "Available"
)

// either reports whether one of two fields is true. It reads the second only when the first is not true: a provider that migrates from one
// contract to the next may write only one of them, or update one of them late.
func (x *exchange) either(own, other Field[bool]) bool {
	return value(x, own).Or(false) || value(x, other).Or(false)
}

// firstNonEmpty returns the first of two fields that is not empty, or else an empty text that one of them holds.
func (x *exchange) firstNonEmpty(own, other Field[string]) Opt[string] {
	v := value(x, own)
	if v.value != "" {
		return v
	}
	if other := value(x, other); other.value != "" || !v.found {
		return other
	}
	return v
}

// spare moves an error that blocks nothing to into: reading continues as if the value were absent. Values below a parent of another type
// have the same error, which is stored once.
func (x *exchange) spare(into *error) {
	if x.err == nil {
		return
	}
	if *into == nil || !strings.Contains((*into).Error(), x.err.Error()) {
		*into = errors.Join(*into, x.err)
	}
	x.err = nil
}

// deferUnless spares the error of a value that is not due yet.
func (x *exchange) deferUnless(due bool, into *error) {
	if !due {
		x.spare(into)
	}
}

// mirrored reads a condition for its owner to mirror. An unreadable condition must not block the owner, because conditions are for people:
// it becomes Unknown with the error as its message. Cluster API does the same where it does not panic.
func mirrored(f ConditionsField, obj map[string]any, conditionType string) Opt[metav1.Condition] {
	c, found, err := f.Find(obj, conditionType)
	if err != nil {
		return Some(metav1.Condition{
			Type: conditionType, Status: metav1.ConditionUnknown, Reason: ReasonInvalidCondition, Message: err.Error(),
		})
	}
	return Opt[metav1.Condition]{value: c, found: found}
}
