package contract

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// upsert writes one condition into the list by its type and leaves the other entries, their order, and members it does not
// know, alone. A new one goes where Cluster API would sort it (order), so that a list which is only written here is sorted.
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
	return p.path.set(obj, slices.Insert(slices.Clip(items), p.placeFor(c.Type, items), any(p.values(c, nil))))
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
