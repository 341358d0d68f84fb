package contract

import (
	"maps"
	"slices"
	"time"

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
			return nil, Path{}, err
		}
		if wrong == nil {
			wrong = err
		}
	}
	if listed {
		return items, at, nil
	}
	return nil, Path{}, wrong
}

// readCondition reads one condition of any shape: a severity and a heartbeat are for people and are not read.
func readCondition(e entry) (c metav1.Condition, err error) {
	if c.Type, err = e.text("type"); err != nil {
		return c, err
	}
	if c.Type == "" {
		return c, &FieldError{Path: e.path("type"), Want: "type of a condition", Got: "nothing"}
	}
	if c.Status, err = conditionStatus(e); err != nil {
		return c, err
	}
	if c.Reason, err = e.text("reason"); err != nil {
		return c, err
	}
	if c.Reason == "" {
		c.Reason = ReasonNotReported
	}
	if c.Message, err = e.text("message"); err != nil {
		return c, err
	}
	if c.ObservedGeneration, _, err = conditionGeneration.Get(e.values); err != nil {
		return c, e.locate(err)
	}
	at, _, err := conditionTime.Get(e.values) // the zero metav1.Time is written as null
	c.LastTransitionTime = metav1.NewTime(at)
	return c, e.locate(err)
}

// Members of a condition, which are made once because every read needs them.
//
//nolint:gochecknoglobals // constants: fields are values that nothing changes
var (
	conditionGeneration = At[int64]("observedGeneration")
	conditionTime       = At[time.Time]("lastTransitionTime")
)

func conditionStatus(e entry) (metav1.ConditionStatus, error) {
	text, err := e.text("status")
	if err != nil {
		return "", err
	}
	switch status := metav1.ConditionStatus(text); status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
		return status, nil
	default:
		got := "another text"
		if text == "" {
			got = "nothing"
		}
		return "", &FieldError{Path: e.path("status"), Want: "True, False or Unknown", Got: got}
	}
}

// isText compares without turning the text into an interface value, which would allocate.
func isText(raw any, want string) bool {
	text, ok := raw.(string)
	return ok && text == want
}

// severityOfFalse is the severity of a condition of shape v1beta1 that is False and came without one: metav1 conditions have no
// severity, and "Info" raises no alarm.
const severityOfFalse = "Info"

// write removes and upserts conditions by their type, in every place that is written; removing wins, as in UpdatedConditions. A
// layout without a place for conditions drops them.
func (f ConditionsField) write(obj map[string]any, upsert []metav1.Condition, remove []string) error {
	for _, place := range f.places {
		if !place.written || place.path.IsZero() {
			continue
		}
		for _, conditionType := range remove {
			if err := place.remove(obj, conditionType); err != nil {
				return err
			}
		}
		for _, c := range upsert {
			if slices.Contains(remove, c.Type) {
				continue
			}
			if err := place.upsert(obj, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// upsert writes one condition into the list by its type and leaves the other entries, their order, and members it does not know, alone. A
// new one goes before the first with a later name, so that a list which is only written here does not depend on which came first.
func (p conditionPlace) upsert(obj map[string]any, c metav1.Condition) error {
	items, err := p.list(obj)
	if err != nil {
		return err
	}
	for _, item := range items {
		if values, ok := item.(map[string]any); ok && isText(values["type"], c.Type) {
			delete(values, "observedGeneration")
			delete(values, "message")
			maps.Copy(values, p.values(c, values["severity"]))
			if p.shape == shapeV1Beta1 && c.Status != metav1.ConditionFalse {
				delete(values, "severity") // only a condition that is False may have one
			}
			return nil
		}
	}
	at := slices.IndexFunc(items, func(item any) bool {
		values, _ := item.(map[string]any)
		have, _ := values["type"].(string)
		return have > c.Type
	})
	if at < 0 {
		at = len(items)
	}
	return p.path.set(obj, slices.Insert(slices.Clip(items), at, any(p.values(c, nil))))
}

// values returns the members of a condition in the shape of the place.
func (p conditionPlace) values(c metav1.Condition, severity any) map[string]any {
	if c.Reason == "" {
		c.Reason = ReasonNotReported // the API server refuses an empty one
	}
	values := map[string]any{
		"type": c.Type, "status": string(c.Status), "reason": c.Reason,
		"lastTransitionTime": rfc3339(c.LastTransitionTime.Time),
	}
	if c.Message != "" || p.shape != shapeV1Beta1 { // metav1 demands a message, the older schema refuses an empty one
		values["message"] = c.Message
	}
	switch p.shape {
	case shapeMetaV1:
		if c.ObservedGeneration != 0 {
			values["observedGeneration"] = c.ObservedGeneration
		}
	case shapeV1Beta1:
		if c.Status == metav1.ConditionFalse && (severity == nil || isText(severity, "")) {
			values["severity"] = severityOfFalse
		}
	case shapeNode: // a heartbeat would change on every pass
	}
	return values
}

func (p conditionPlace) remove(obj map[string]any, conditionType string) error {
	items, err := p.list(obj)
	if err != nil {
		return err
	}
	kept := make([]any, 0, len(items))
	for _, item := range items {
		if values, ok := item.(map[string]any); !ok || !isText(values["type"], conditionType) {
			kept = append(kept, item)
		}
	}
	if len(kept) == len(items) {
		return nil
	}
	return p.path.set(obj, kept)
}

func (p conditionPlace) list(obj map[string]any) ([]any, error) {
	items, _, err := ConditionsField{places: []conditionPlace{p}}.items(obj)
	return items, err
}
