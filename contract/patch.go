package contract

import "reflect"

// MergePatch returns the smallest JSON merge patch (RFC 7386) that turns before into after, nil when they are equal. An object that is
// absent from after is emptied key by key, so that keys which another writer has added survive. A merge patch cannot write null: a null in
// after counts as absent. Both arguments must be JSON content. Neither is changed, and the patch shares values with after.
func MergePatch(before, after map[string]any) (patch map[string]any) {
	add := func(key string, value any) {
		if patch == nil {
			patch = map[string]any{}
		}
		patch[key] = value
	}
	for key, to := range after {
		from, there := before[key]
		if to == nil || there && reflect.DeepEqual(from, to) {
			continue // a patch cannot write null
		}
		if value := patchValue(from, to); value != nil {
			add(key, value)
		}
	}
	for key, from := range before {
		if to, kept := after[key]; kept && (to != nil || from == nil) {
			continue
		}
		if fromMap, ok := from.(map[string]any); ok && len(fromMap) > 0 {
			add(key, MergePatch(fromMap, nil))
			continue
		}
		add(key, nil)
	}
	return patch
}

// patchValue returns the patch of one value, nil when there is none: two objects may differ only in nulls.
func patchValue(from, to any) any {
	toMap, ok := to.(map[string]any)
	if !ok {
		return to
	}
	fromMap, wasMap := from.(map[string]any)
	if inner := MergePatch(fromMap, toMap); inner != nil {
		return inner
	}
	if wasMap && fromMap != nil {
		return nil
	}
	return map[string]any{}
}
