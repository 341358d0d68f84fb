package clusterapi

import (
	"cmp"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// valueAt returns the pointee, a zero value when the pointer is nil.
func valueAt[T any](at *T) (value T) {
	if at != nil {
		value = *at
	}
	return value
}

func textAt[T ~string](at *T) string { return string(valueAt(at)) }

func seconds(n *int32) contract.Opt[time.Duration] {
	if n == nil {
		return contract.Opt[time.Duration]{}
	}
	return contract.Some(time.Duration(*n) * time.Second)
}

// mapped returns the change of a text. The empty text clears it.
func mapped[T any](c contract.Change[T], text func(T) string) contract.Change[string] {
	value, set := c.Value()
	if value := text(value); set && value != "" {
		return contract.SetTo(value)
	}
	if set || c.Clears() {
		return contract.Cleared[string]()
	}
	return contract.Change[string]{}
}

// annotated returns an update with an additional change of an annotation. It does not change the map of the argument.
func annotated(u contract.MetadataUpdate, key string, c contract.Change[string]) contract.MetadataUpdate {
	if c.Keeps() {
		return u
	}
	annotations := map[string]contract.Change[string]{}
	maps.Copy(annotations, u.Annotations)
	annotations[key], u.Annotations = c, annotations
	return u
}

// setTime truncates to whole seconds, like an encoded object.
func setTime(c contract.Change[time.Time], into *metav1.Time) {
	if at, set := c.Value(); set || c.Clears() {
		*into = metav1.NewTime(at.UTC().Truncate(time.Second))
	}
}

// setText clears the field for an empty text, because the schema rejects it.
func setText[T ~string](c contract.Change[string], into **T) {
	if value, set := c.Value(); set && value != "" {
		*into = new(T(value))
	} else if set || c.Clears() {
		*into = nil
	}
}

// setConditions changes a list only when there are conditions to upsert or to remove.
func setConditions(list *[]metav1.Condition, upsert []metav1.Condition, remove []string) {
	if len(upsert) > 0 || len(remove) > 0 {
		*list = contract.UpdatedConditions(*list, upsert, remove)
	}
}

// conditions returns a list as package contract reads it: each condition has a reason and a valid status.
func conditions(list, before []metav1.Condition) ([]metav1.Condition, error) {
	whole := true
	for i := range list {
		c := &list[i]
		switch {
		case c.Type == "":
			return nil, missing("status", "conditions", i, "type")
		case c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse && c.Status != metav1.ConditionUnknown:
			return nil, missing("status", "conditions", i, "status")
		}
		whole = whole && c.Reason != ""
	}
	if whole {
		return list, nil
	}
	return contract.Converted(list, before, func(c metav1.Condition) metav1.Condition {
		c.Reason = cmp.Or(c.Reason, contract.ReasonNotReported)
		return c
	}), nil
}

// selector returns nil for an empty selector: it selects nothing.
func selector(s *metav1.LabelSelector) *metav1.LabelSelector {
	if len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return nil
	}
	return s
}

// missing returns the error about a required member of an entry.
func missing(place, list string, entry int, member string) error {
	segments := append(strings.Split(place, "."), list, strconv.Itoa(entry), member)
	return &contract.FieldError{Path: contract.NewPath(segments...), Want: "string", Got: "nothing"}
}
