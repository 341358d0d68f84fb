package contract

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// textsAt appends the texts of a list to into[:0] and returns it; strings are shared with obj. found tells an absent list from an empty
// one. It allocates nothing when into is large enough.
func textsAt(path Path, obj map[string]any, into []string) (texts []string, found bool, err error) {
	into = into[:0]
	items, found, err := listAt(path, obj)
	if err != nil || !found {
		return into, false, err
	}
	for i, item := range items {
		text, ok := item.(string)
		if !ok {
			return into, false, &FieldError{Path: entryPath(path, i), Want: "string", Got: typeName(item)}
		}
		into = append(into, text)
	}
	return into, true, nil
}

// listAt returns the list at a place. Null is a wrong type there, as for scalars.
func listAt(at Path, obj map[string]any) ([]any, bool, error) {
	raw, found, err := lookup(at.segments, obj)
	if err != nil || !found {
		return nil, false, err
	}
	items, ok := raw.([]any)
	if !ok {
		return nil, false, &FieldError{Path: at, Want: "list", Got: typeName(raw)}
	}
	if err := boundList(at, items); err != nil {
		return nil, false, err
	}
	return items, true, nil
}

// entry is one object of a list and where it stands, for readers of its members.
type entry struct {
	list   Path
	index  int
	values map[string]any
}

// entriesOf reads the objects of a list. While what it reads equals what the state held before, that stays: an unchanged
// object is read without an allocation, and what was handed out earlier never changes.
func entriesOf[T comparable](at Path, items []any, before []T, read func(entry) (T, error)) ([]T, error) {
	if len(items) == 0 {
		return nil, nil
	}
	kept := before[:0:min(len(before), len(items))]
	fresh := false
	for i, item := range items {
		values, ok := item.(map[string]any)
		if !ok {
			return nil, &FieldError{Path: entryPath(at, i), Want: "object", Got: typeName(item)}
		}
		value, err := read(entry{list: at, index: i, values: values})
		if err != nil {
			return nil, err
		}
		if !fresh && i < len(before) && before[i] == value {
			kept = kept[:i+1]
			continue
		}
		if !fresh {
			fresh, kept = true, append(make([]T, 0, len(items)), before[:i]...)
		}
		kept = append(kept, value)
	}
	return slices.Clip(kept), nil
}

// path returns the place of a member.
func (e entry) path(key string) Path { return entryPath(e.list, e.index, key) }

// text returns a member that may be missing but is otherwise text.
func (e entry) text(key string) (string, error) {
	text, ok := e.values[key].(string)
	if !ok {
		if _, found := e.values[key]; found {
			return "", wrongMember(e, key)
		}
	}
	if len(text) > maxText {
		return "", boundText(e.path(key).segments, text)
	}
	return text, nil
}

// needed returns a member that must be text and not empty.
func (e entry) needed(key string) (string, error) {
	text, err := e.text(key)
	if err == nil && text == "" {
		return "", &FieldError{Path: e.path(key), Want: "string", Got: "nothing"}
	}
	return text, err
}

// lowestVersionAt returns the Field of a list of Kubernetes versions, entries with a version and how many replicas have it. It reads as the
// lowest of them.
func lowestVersionAt(segments ...string) Field[string] {
	return Field[string]{path: NewPath(segments...), form: formVersions}
}

// lowestVersion returns the lowest version of a list, empty without one; of versions that are no semantic ones the first in the
// alphabet, because who reads it then says so.
func lowestVersion(path Path, obj map[string]any) (string, error) {
	items, _, err := listAt(path, obj)
	if err != nil {
		return "", err
	}
	versions, err := entriesOf(path, items, nil, func(e entry) (string, error) { return e.text("version") })
	if err != nil {
		return "", err
	}
	lowest := ""
	for _, text := range versions {
		if text != "" && (lowest == "" || isLower(text, lowest)) {
			lowest = text
		}
	}
	return lowest, nil
}

func isLower(a, b string) bool {
	x, errX := version.Parse(a)
	y, errY := version.Parse(b)
	if errX != nil || errY != nil {
		return errX != nil && (errY == nil || a < b) // what cannot be read is not hidden by what can
	}
	return x.LessThan(y)
}
