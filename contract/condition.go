package contract

import (
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

// ConditionsField is the place of a list of conditions in the shape of metav1.Condition, or in Cluster API's older shape,
// whose severity is not read. The zero ConditionsField is "no such place": it reads as an empty list.
type ConditionsField struct {
	path Path
	// newer, when it holds a list, is read instead of path.
	newer Path
}

// ConditionsAt returns the ConditionsField at the given keys.
func ConditionsAt(segments ...string) ConditionsField {
	return ConditionsField{path: NewPath(segments...)}
}

// providerConditions is where provider objects of every supported contract version keep conditions. A provider in
// transition has both lists, and the one in metav1 shape counts. Rule: Cluster API proposal "improving status in CAPI
// resources", and what its own reader does.
func providerConditions() ConditionsField {
	return ConditionsField{path: NewPath("status", "conditions"), newer: NewPath("status", "v1beta2", "conditions")}
}

// Path returns the place.
func (f ConditionsField) Path() Path { return f.path }

// Get appends the conditions to into[:0] and returns it; strings are shared with obj, which is neither changed nor kept.
// Times are in UTC. An absent list is empty, an empty reason becomes ReasonNotReported. An error matches ErrWrongType: a
// list, an entry or a member of another type, an empty type, a status other than True, False and Unknown, an unreadable
// time.
func (f ConditionsField) Get(obj map[string]any, into []metav1.Condition) ([]metav1.Condition, error) {
	into = into[:0]
	items, at, err := f.items(obj)
	if err != nil {
		return into, err
	}
	for i, item := range items {
		entry, ok := item.(map[string]any)
		if !ok {
			return into, &FieldError{Path: entryPath(at, i), Want: "object", Got: typeName(item)}
		}
		condition, err := readEntry(at, i, entry)
		if err != nil {
			return into, err
		}
		into = append(into, condition)
	}
	return into, nil
}

// Find returns the first condition of one type; the others are not read, so it does not matter whether they are in order.
// Errors are those of Get. It allocates nothing unless it fails or the time is not in UTC.
func (f ConditionsField) Find(obj map[string]any, conditionType string) (metav1.Condition, bool, error) {
	items, at, err := f.items(obj)
	if err != nil {
		return metav1.Condition{}, false, err
	}
	for i, item := range items {
		entry, ok := item.(map[string]any)
		if !ok || entry["type"] != any(conditionType) {
			continue
		}
		condition, err := readEntry(at, i, entry)
		if err != nil {
			return metav1.Condition{}, false, err
		}
		return condition, true, nil
	}
	return metav1.Condition{}, false, nil
}

// items returns the list and where it was found.
func (f ConditionsField) items(obj map[string]any) ([]any, Path, error) {
	if raw, _, err := lookup(f.newer.segments, obj); err == nil {
		if items, ok := raw.([]any); ok {
			return items, f.newer, nil
		}
	}
	raw, found, err := lookup(f.path.segments, obj)
	if err != nil || !found || raw == nil {
		return nil, f.path, err
	}
	items, ok := raw.([]any)
	if !ok {
		return nil, f.path, &FieldError{Path: f.path, Want: "list", Got: typeName(raw)}
	}
	return items, f.path, nil
}

func readEntry(at Path, i int, entry map[string]any) (c metav1.Condition, err error) {
	if c.Type, err = memberText(at, i, entry, "type"); err != nil {
		return c, err
	}
	if c.Type == "" {
		return c, &FieldError{Path: entryPath(at, i, "type"), Want: "type of a condition", Got: "nothing"}
	}
	if c.Status, err = conditionStatus(at, i, entry); err != nil {
		return c, err
	}
	if c.Reason, err = memberText(at, i, entry, "reason"); err != nil {
		return c, err
	}
	if c.Reason == "" {
		c.Reason = ReasonNotReported
	}
	if c.Message, err = memberText(at, i, entry, "message"); err != nil {
		return c, err
	}
	if c.ObservedGeneration, err = observedGeneration(at, i, entry); err != nil {
		return c, err
	}
	c.LastTransitionTime, err = transitionTime(at, i, entry)
	return c, err
}

// memberText returns a member that may be missing but is otherwise text.
func memberText(at Path, i int, entry map[string]any, key string) (string, error) {
	text, ok := entry[key].(string)
	if !ok {
		if _, found := entry[key]; found {
			return "", wrongMember(at, i, entry, key)
		}
	}
	return text, nil
}

func conditionStatus(at Path, i int, entry map[string]any) (metav1.ConditionStatus, error) {
	text, err := memberText(at, i, entry, "status")
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
		return "", &FieldError{Path: entryPath(at, i, "status"), Want: "True, False or Unknown", Got: got}
	}
}

func observedGeneration(at Path, i int, entry map[string]any) (int64, error) {
	raw, found := entry["observedGeneration"]
	if !found {
		return 0, nil
	}
	generation, ok := raw.(int64)
	if !ok {
		return 0, &FieldError{Path: entryPath(at, i, "observedGeneration"), Want: "integer", Got: typeName(raw)}
	}
	return generation, nil
}

// transitionTime reads a time that may be missing, empty, or null, as the zero metav1.Time is written.
func transitionTime(at Path, i int, entry map[string]any) (metav1.Time, error) {
	raw := entry["lastTransitionTime"]
	if raw == nil || raw == "" {
		return metav1.Time{}, nil
	}
	text, ok := raw.(string)
	if !ok {
		return metav1.Time{}, wrongMember(at, i, entry, "lastTransitionTime")
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return metav1.Time{}, unreadableTime(entryPath(at, i, "lastTransitionTime"))
	}
	return metav1.NewTime(parsed.UTC()), nil
}

func unreadableTime(at Path) error {
	return &FieldError{Path: at, Want: "RFC 3339 time", Got: "unreadable text"}
}
