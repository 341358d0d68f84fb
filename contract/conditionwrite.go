package contract

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// write upserts and removes conditions by their type. A layout without a place for conditions drops them.
func (f ConditionsField) write(obj map[string]any, upsert []metav1.Condition, remove []string) error {
	if f.path.IsZero() || len(upsert)+len(remove) == 0 {
		return nil
	}
	for _, c := range upsert {
		if err := f.upsert(obj, c); err != nil {
			return err
		}
	}
	for _, conditionType := range remove {
		if err := f.remove(obj, conditionType); err != nil {
			return err
		}
	}
	return nil
}

// upsert writes one condition into the list by its type and leaves the other entries, and members it does not know, alone.
func (f ConditionsField) upsert(obj map[string]any, c metav1.Condition) error {
	items, err := f.list(obj)
	if err != nil {
		return err
	}
	if c.Reason == "" {
		c.Reason = ReasonNotReported // the API server refuses an empty one
	}
	values := map[string]any{
		"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message,
		"lastTransitionTime": rfc3339(c.LastTransitionTime.Time),
	}
	if c.ObservedGeneration != 0 {
		values["observedGeneration"] = c.ObservedGeneration
	}
	for _, item := range items {
		entry, ok := item.(map[string]any)
		if !ok || entry["type"] != any(c.Type) {
			continue
		}
		delete(entry, "observedGeneration")
		maps.Copy(entry, values)
		return nil
	}
	return f.path.set(obj, append(slices.Clip(items), values))
}

func (f ConditionsField) remove(obj map[string]any, conditionType string) error {
	items, err := f.list(obj)
	if err != nil {
		return err
	}
	kept := make([]any, 0, len(items))
	for _, item := range items {
		if entry, ok := item.(map[string]any); !ok || entry["type"] != any(conditionType) {
			kept = append(kept, item)
		}
	}
	if len(kept) == len(items) {
		return nil
	}
	return f.path.set(obj, kept)
}

// list returns the conditions at the place that is written.
func (f ConditionsField) list(obj map[string]any) ([]any, error) {
	items, _, err := ConditionsField{path: f.path}.items(obj)
	return items, err
}
