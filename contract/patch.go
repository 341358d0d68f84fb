package contract

import (
	"maps"
	"reflect"
	"slices"
)

// MergePatch returns the smallest JSON merge patch (RFC 7386) that turns before into after, nil when they are equal, and
// whether it replaces or removes a list as a whole, which only a writer who has seen the newest list may do. An object that
// is gone from after is emptied key by key, never as one, so that a key which another writer added meanwhile survives. A
// merge patch cannot write null: a null in after counts as absent. Both must be JSON content; neither is changed, and the
// patch shares values with after.
func MergePatch(before, after map[string]any) (patch map[string]any, replacesList bool) {
	for key, to := range after {
		from, there := before[key]
		if to == nil || there && equal(from, to) {
			continue // a patch cannot write null
		}
		value, lists := patchValue(from, to)
		if value == nil {
			continue
		}
		patch, replacesList = withKey(patch, key, value), replacesList || lists
	}
	for key, from := range before {
		if to, kept := after[key]; kept && (to != nil || from == nil) {
			continue
		}
		if fromMap, ok := from.(map[string]any); ok && len(fromMap) > 0 {
			inner, lists := MergePatch(fromMap, nil)
			patch, replacesList = withKey(patch, key, inner), replacesList || lists
			continue
		}
		patch, replacesList = withKey(patch, key, nil), replacesList || isList(from)
	}
	return patch, replacesList
}

// patchValue is what a patch says about a key to make it to, nil when nothing can be said: two objects may differ in nulls
// only.
func patchValue(from, to any) (value any, replacesList bool) {
	toMap, ok := to.(map[string]any)
	if !ok {
		return to, isList(from) || isList(to)
	}
	fromMap, wasMap := from.(map[string]any)
	inner, lists := MergePatch(fromMap, toMap)
	if inner != nil {
		return inner, lists || isList(from)
	}
	if wasMap && fromMap != nil {
		return nil, false
	}
	return map[string]any{}, isList(from)
}

func withKey(patch map[string]any, key string, value any) map[string]any {
	if patch == nil {
		patch = map[string]any{}
	}
	patch[key] = value
	return patch
}

func isList(v any) bool {
	_, ok := v.([]any)
	return ok
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case nil, string, bool, int64, float64:
		return a == b
	default: // no JSON content, and perhaps not comparable with ==
		return reflect.DeepEqual(a, b)
	}
}
