package contract

import "strings"

// Path is the place of a value in an object: the keys from the root to the value. It is immutable and safe for concurrent use. The zero
// Path is no place.
type Path struct {
	segments []string
	text     string
}

// NewPath returns the path of the given keys. It does not retain the slice.
func NewPath(segments ...string) Path {
	own := append([]string(nil), segments...)
	return Path{segments: own, text: strings.Join(own, ".")}
}

// String returns the keys joined by dots, as in "status.initialization.provisioned".
func (p Path) String() string { return p.text }

// IsZero reports whether the path is the zero Path.
func (p Path) IsZero() bool { return len(p.segments) == 0 }

// Segments returns a copy of the keys.
func (p Path) Segments() []string { return append([]string(nil), p.segments...) }

// below returns the path extended by a key, the zero Path for the zero Path.
func (p Path) below(key string) Path {
	if p.IsZero() {
		return Path{}
	}
	return NewPath(append(p.Segments(), key)...)
}

// lookup returns the value at the given keys. An absent key, or a null parent, is found=false; a parent of another type is a FieldError. It
// takes the keys and not the Path, because copying the five words of a Path is too slow for Field.Get.
func lookup(segments []string, obj map[string]any) (value any, found bool, err error) {
	last := len(segments) - 1
	if last < 0 {
		return nil, false, nil
	}
	for i, key := range segments[:last] {
		next, ok := obj[key]
		if !ok || next == nil {
			return nil, false, nil
		}
		inner, ok := next.(map[string]any)
		if !ok {
			return nil, false, &FieldError{Path: NewPath(segments[:i+1]...), Want: "object", Got: typeName(next)}
		}
		obj = inner
	}
	value, found = obj[segments[last]]
	return value, found, nil
}

// set writes a value and creates missing parents. It fails before it creates anything, because no wrong type can be below a missing key.
func (p Path) set(obj map[string]any, value any) error {
	if p.IsZero() || obj == nil {
		return errNoPlace
	}
	last := len(p.segments) - 1
	for i, key := range p.segments[:last] {
		if obj[key] == nil {
			obj[key] = map[string]any{}
		}
		inner, ok := obj[key].(map[string]any)
		if !ok {
			return p.wrongParent(i, obj[key])
		}
		obj = inner
	}
	obj[p.segments[last]] = value
	return nil
}

func (p Path) wrongParent(depth int, raw any) error {
	return &FieldError{Path: NewPath(p.segments[:depth+1]...), Want: "object", Got: typeName(raw)}
}

// clear removes the value and then every parent below the first key that became empty, so that no `{}` remains. A parent that was already
// empty is not removed.
func (p Path) clear(obj map[string]any) error { return p.clearBelow(obj, 0) }

func (p Path) clearBelow(obj map[string]any, depth int) error {
	if depth >= len(p.segments)-1 {
		if !p.IsZero() {
			delete(obj, p.segments[depth])
		}
		return nil
	}
	key := p.segments[depth]
	inner, ok := obj[key].(map[string]any)
	if !ok && obj[key] != nil {
		return p.wrongParent(depth, obj[key])
	}
	some := len(inner) > 0
	err := p.clearBelow(inner, depth+1)
	if some && len(inner) == 0 && depth > 0 {
		delete(obj, key)
	}
	return err
}
