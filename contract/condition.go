package contract

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that stand in for what a provider object did not say properly. Both are Cluster API's words.
const (
	// ReasonNotReported stands for an empty reason, which old conditions may have and metav1.Condition may not.
	ReasonNotReported = "NoReasonReported"
	// ReasonInvalidCondition is the reason of the Unknown condition that stands for one which cannot be read.
	ReasonInvalidCondition = "InvalidConditionReported"
)

// conditionShape says which members the entries of a list of conditions have. Every shape is read alike.
type conditionShape uint8

const (
	// shapeMetaV1 is metav1.Condition, what Cluster API has used since v1beta2.
	shapeMetaV1 conditionShape = iota
	// shapeV1Beta1 is Cluster API's own condition until v1beta1: it has a severity and no observedGeneration.
	shapeV1Beta1
	// shapeNode is the condition of a Node, which other systems use for their Machines: it has no observedGeneration.
	shapeNode
)

type conditionPlace struct {
	path    Path
	shape   conditionShape
	written bool
}

// ConditionsField is where an object keeps its conditions: one place, or several for an API that is moving from one shape
// to another. The first place that holds a list is read. The zero ConditionsField is "no such place": it reads as an empty
// list. Immutable, and safe for concurrent use as long as no goroutine writes the object.
type ConditionsField struct{ places []conditionPlace }

// ConditionsAt returns the ConditionsField of a list in the shape of metav1.Condition at the given keys.
func ConditionsAt(segments ...string) ConditionsField {
	return conditionsShaped(shapeMetaV1, segments...)
}

// conditionsShaped returns the ConditionsField of a list in some shape at the given keys.
func conditionsShaped(shape conditionShape, segments ...string) ConditionsField {
	return ConditionsField{places: []conditionPlace{{path: NewPath(segments...), shape: shape, written: true}}}
}

// and returns a ConditionsField that writes the places of both and reads those of other where the ones of f hold no list.
// Neither is changed.
func (f ConditionsField) and(other ConditionsField) ConditionsField {
	return ConditionsField{places: slices.Concat(f.places, other.places)}
}

// orElse returns a ConditionsField that reads the places of other where those of f hold no list, and never writes them.
// Neither is changed.
func (f ConditionsField) orElse(other ConditionsField) ConditionsField {
	places := slices.Concat(f.places, other.places)
	for i := range places[len(f.places):] {
		places[len(f.places)+i].written = false
	}
	return ConditionsField{places: places}
}

// providerConditions is where provider objects keep conditions. One in transition has two lists, and the one in metav1
// shape counts; what a provider of contract v1beta2 still says in the old shape stands below status.deprecated. Rule:
// Cluster API proposal "improving status in CAPI resources".
func providerConditions() ConditionsField {
	return ConditionsField{}.
		orElse(ConditionsAt("status", "v1beta2", "conditions")).
		orElse(ConditionsAt("status", "conditions")).
		orElse(conditionsShaped(shapeV1Beta1, "status", "deprecated", "v1beta1", "conditions"))
}

// path returns the place that is read first; it is the zero Path when the layout has none.
func (f ConditionsField) path() Path {
	if len(f.places) == 0 {
		return Path{}
	}
	return f.places[0].path
}

// Paths returns every place in the order in which they are looked at. The slice is the caller's.
func (f ConditionsField) Paths() []Path {
	paths := make([]Path, 0, len(f.places))
	for _, p := range f.places {
		paths = append(paths, p.path)
	}
	return paths
}

// Get returns the conditions; strings are shared with obj, which is neither changed nor kept. While they are those of before, what an
// earlier call returned, that list is returned, and nothing is allocated. Times are in UTC. An absent list is empty, an empty reason
// becomes ReasonNotReported. An error matches ErrWrongType: a list, an entry or a member of another type, an empty type, a status other
// than True, False and Unknown, an unreadable time.
func (f ConditionsField) Get(obj map[string]any, before []metav1.Condition) ([]metav1.Condition, error) {
	items, at, err := f.items(obj)
	if err != nil {
		return nil, err
	}
	return entriesOf(at, items, before, readCondition)
}

// Find returns the first condition of one type; the others are not read, so it does not matter whether they are in order.
// Errors are those of Get. It allocates nothing unless it fails or the time is not in UTC.
func (f ConditionsField) Find(obj map[string]any, conditionType string) (metav1.Condition, bool, error) {
	items, at, err := f.items(obj)
	if err != nil {
		return metav1.Condition{}, false, err
	}
	for i, item := range items {
		values, ok := item.(map[string]any)
		if !ok || !isText(values["type"], conditionType) {
			continue
		}
		condition, err := readCondition(entry{list: at, index: i, values: values})
		if err != nil {
			return metav1.Condition{}, false, err
		}
		return condition, true, nil
	}
	return metav1.Condition{}, false, nil
}

// items returns the first list and where it was found. What is no list does not matter in a place that is only read, while
// another place holds one; a place that is written must be writable.
func (f ConditionsField) items(obj map[string]any) (items []any, at Path, err error) {
	var wrong error
	listed := false
	for _, place := range f.places {
		raw, found, err := lookup(place.path.segments, obj)
		if list, ok := raw.([]any); ok && err == nil {
			if !listed {
				items, at, listed = list, place.path, true
			}
			continue
		}
		if err == nil && found && raw != nil {
			err = &FieldError{Path: place.path, Want: "list", Got: typeName(raw)}
		}
		if err != nil && place.written {
			return nil, f.path(), err
		}
		if wrong == nil {
			wrong = err
		}
	}
	if listed {
		return items, at, boundList(at, items)
	}
	return nil, f.path(), wrong
}
