package contract

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that replace missing or invalid values in the conditions of provider objects. Both are Cluster API's.
const (
	// ReasonNotReported replaces an empty reason, which old conditions may have and metav1.Condition may not.
	ReasonNotReported = "NoReasonReported"
	// ReasonInvalidCondition is the reason of the Unknown condition that replaces an unreadable one.
	ReasonInvalidCondition = "InvalidConditionReported"
)

// conditionShape selects the members that the entries of a list of conditions have. All shapes are read in the same way.
type conditionShape uint8

const (
	// shapeMetaV1 is metav1.Condition, which Cluster API has used since v1beta2.
	shapeMetaV1 conditionShape = iota
	// shapeV1Beta1 is Cluster API's own condition up to v1beta1: it has a severity and no observedGeneration.
	shapeV1Beta1
	// shapeNode is the condition of a Node, which other systems use for their Machines: it has no observedGeneration.
	shapeNode
	// shapeReadOnly is any of the others in a list that is never written.
	shapeReadOnly
)

type conditionPlace struct {
	path  Path
	shape conditionShape
}

// ConditionsField locates the conditions of an object: in one list, or in several for an API that migrates from one shape to another. The
// first list that exists is read. The zero ConditionsField reads as an empty list. It is immutable, and safe for concurrent use as long as
// no goroutine writes the object.
type ConditionsField struct{ places []conditionPlace }

// ConditionsAt returns the ConditionsField of a list of metav1.Condition at the given keys.
func ConditionsAt(segments ...string) ConditionsField {
	return conditionsShaped(shapeMetaV1, segments...)
}

// conditionsShaped returns the ConditionsField of a list of the given shape at the given keys.
func conditionsShaped(shape conditionShape, segments ...string) ConditionsField {
	return ConditionsField{places: []conditionPlace{{NewPath(segments...), shape}}}
}

// conditionsV1Beta1 returns the two lists of cluster.x-k8s.io/v1beta1: both are written, and the one in metav1 shape is read when it
// exists.
func conditionsV1Beta1() ConditionsField {
	return ConditionsField{places: []conditionPlace{
		{NewPath("status", "v1beta2", "conditions"), shapeMetaV1}, {NewPath("status", "conditions"), shapeV1Beta1},
	}}
}

// providerConditions returns the places of conditions in provider objects. A provider in transition has two lists, and the one in metav1
// shape takes precedence. A provider of contract v1beta2 may still have the old shape below status.deprecated. Rule: Cluster API proposal
// "improving status in CAPI resources".
func providerConditions() ConditionsField {
	return ConditionsField{places: []conditionPlace{
		{NewPath("status", "v1beta2", "conditions"), shapeReadOnly}, {NewPath("status", "conditions"), shapeReadOnly},
		{NewPath("status", "deprecated", "v1beta1", "conditions"), shapeReadOnly},
	}}
}

// Paths returns all paths in the order of precedence. The caller owns the slice.
func (f ConditionsField) Paths() []Path {
	paths := make([]Path, 0, len(f.places))
	for _, p := range f.places {
		paths = append(paths, p.path)
	}
	return paths
}

// Get returns the conditions. Strings are shared with obj, which is neither changed nor retained. before is the result of an earlier call:
// while the conditions are equal, Get returns it and allocates nothing. Times are in UTC. An absent list is empty, and an empty reason
// becomes ReasonNotReported. An error matches ErrWrongType: for a list, an entry or a member of another type, an empty type, a status other
// than True, False and Unknown, or an unreadable time.
func (f ConditionsField) Get(obj map[string]any, before []metav1.Condition) ([]metav1.Condition, error) {
	items, at, err := f.items(obj)
	if err != nil {
		return nil, err
	}
	return entriesOf(at, items, before, readCondition)
}

// Find returns the first condition of the given type. It does not read the others, so that errors in them do not matter. Its errors are
// those of Get. It allocates nothing unless it fails or the time is not in UTC.
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

// items returns the first list and its path. A value of another type is ignored in a read-only place while another place has a list; a
// place that is written must be valid.
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
		if err != nil && place.shape != shapeReadOnly {
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

// readCondition reads one condition of any shape. It ignores severity and heartbeat, which are for people.
func readCondition(e entry) (metav1.Condition, error) {
	c := metav1.Condition{
		Type: e.needed("type"), Status: metav1.ConditionStatus(e.text("status")),
		Reason: cmp.Or(e.text("reason"), ReasonNotReported), Message: e.text("message"),
		ObservedGeneration: memberAt(&e, conditionGeneration).Or(0),
		LastTransitionTime: metav1.NewTime(memberAt(&e, conditionTime).Or(time.Time{})), // the zero metav1.Time is encoded as null
	}
	switch c.Status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
	case "":
		e.fail("status", "True, False or Unknown", "nothing")
	default:
		e.fail("status", "True, False or Unknown", "another text")
	}
	return c, e.err
}

// Fields of a condition, created once because every read needs them.
//
//nolint:gochecknoglobals // constants: fields are values that nothing changes
var (
	conditionGeneration = At[int64]("observedGeneration")
	conditionTime       = At[time.Time]("lastTransitionTime")
)

// isText compares without converting the text to an interface value, which would allocate.
func isText(raw any, want string) bool {
	text, ok := raw.(string)
	return ok && text == want
}

// severityOfFalse is the severity of a False condition of shape v1beta1 that has none: metav1 conditions have no severity, and "Info"
// raises no alarm.
const severityOfFalse = "Info"

// write removes and upserts conditions by type in every written place. Removal takes precedence, as in UpdatedConditions. A layout without
// a place for conditions drops them.
func (f ConditionsField) write(obj map[string]any, upsert []metav1.Condition, remove []string) error {
	for _, place := range f.places {
		if place.shape == shapeReadOnly || place.path.IsZero() || len(upsert)+len(remove) == 0 {
			continue
		}
		have, _, err := ConditionsField{places: []conditionPlace{place}}.items(obj)
		if err != nil {
			return err
		}
		items := slices.DeleteFunc(slices.Clone(have), func(item any) bool { return slices.Contains(remove, conditionType(item)) })
		for _, c := range upsert {
			if !slices.Contains(remove, c.Type) {
				items = place.upsert(items, c)
			}
		}
		if len(have)+len(items) == 0 {
			continue
		}
		if err := place.path.set(obj, items); err != nil {
			return err
		}
	}
	return nil
}

// conditionType returns the type of an entry, empty when it is unreadable.
func conditionType(item any) string {
	values, _ := item.(map[string]any)
	text, _ := values["type"].(string)
	return text
}

// upsert writes one condition into a list by type. It preserves the other entries, their order, and unknown members. A new condition is
// inserted before the first one with a later name, so that the order of the list does not depend on the order of writes.
func (p conditionPlace) upsert(items []any, c metav1.Condition) []any {
	for _, item := range items {
		if values, ok := item.(map[string]any); ok && isText(values["type"], c.Type) {
			delete(values, "observedGeneration")
			delete(values, "message")
			maps.Copy(values, p.values(c, values["severity"]))
			if p.shape == shapeV1Beta1 && c.Status != metav1.ConditionFalse {
				delete(values, "severity") // only a condition that is False may have one
			}
			return items
		}
	}
	at := slices.IndexFunc(items, func(item any) bool { return conditionType(item) > c.Type })
	if at < 0 {
		at = len(items)
	}
	return slices.Insert(items, at, any(p.values(c, nil)))
}

// values returns the members of a condition in the shape of p.
func (p conditionPlace) values(c metav1.Condition, severity any) map[string]any {
	if c.Reason == "" {
		c.Reason = ReasonNotReported // the API server rejects an empty one
	}
	values := map[string]any{
		"type": c.Type, "status": string(c.Status), "reason": c.Reason,
		"lastTransitionTime": rfc3339(c.LastTransitionTime.Time),
	}
	if c.Message != "" || p.shape != shapeV1Beta1 { // metav1 requires a message, the older schema rejects an empty one
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
	case shapeNode, shapeReadOnly: // no heartbeat: it would change on every pass
	}
	return values
}
