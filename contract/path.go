package contract

import "strings"

// Path names a place inside an object: the keys from the root to a value. It is immutable and safe for concurrent use.
// The zero Path names nothing.
type Path struct {
	segments []string
	text     string
}

// NewPath returns the path of the given keys. It keeps no reference to the slice.
func NewPath(segments ...string) Path {
	own := append([]string(nil), segments...)
	return Path{segments: own, text: strings.Join(own, ".")}
}

// String returns the keys joined by dots, as in "status.initialization.provisioned".
func (p Path) String() string { return p.text }

// IsZero reports whether the path names nothing.
func (p Path) IsZero() bool { return len(p.segments) == 0 }

// Segments returns a copy of the keys.
func (p Path) Segments() []string { return append([]string(nil), p.segments...) }

// below returns the path of a key below another path, the zero Path below the zero Path.
func (p Path) below(key string) Path {
	if p.IsZero() {
		return Path{}
	}
	return NewPath(append(p.Segments(), key)...)
}

// lookup walks to the value. An absent key, or a null on the way, is found=false; another type on the way is a FieldError.
// It takes the keys and not the Path, which is five words to copy on a path as hot as Field.Get.
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

// parent returns the map that holds the last key, made on the way when create is true. Without create, an absent parent
// is nil. It fails before it makes anything, because nothing of another type can stand below a key that is missing.
func (p Path) parent(obj map[string]any, create bool) (map[string]any, error) {
	for i, key := range p.segments[:len(p.segments)-1] {
		next, ok := obj[key]
		if !ok || next == nil {
			if !create {
				return nil, nil
			}
			made := map[string]any{}
			obj[key] = made
			obj = made
			continue
		}
		inner, ok := next.(map[string]any)
		if !ok {
			return nil, &FieldError{Path: NewPath(p.segments[:i+1]...), Want: "object", Got: typeName(next)}
		}
		obj = inner
	}
	return obj, nil
}

func (p Path) set(obj map[string]any, value any) error {
	if p.IsZero() || obj == nil {
		return errNoPlace
	}
	at, err := p.parent(obj, true)
	if err != nil {
		return err
	}
	at[p.segments[len(p.segments)-1]] = value
	return nil
}

// clear removes the value and then every parent below the first key that became empty by it, so that no `{}` is left
// behind. A parent that was empty before is not ours to remove.
func (p Path) clear(obj map[string]any) error {
	if p.IsZero() {
		return nil
	}
	at, err := p.parent(obj, false)
	if err != nil || at == nil {
		return err
	}
	last := p.segments[len(p.segments)-1]
	if _, found := at[last]; !found {
		return nil
	}
	delete(at, last)
	for depth := len(p.segments) - 1; depth > 1 && len(at) == 0; depth-- {
		up, err := Path{segments: p.segments[:depth]}.parent(obj, false)
		if err != nil || up == nil {
			return err
		}
		delete(up, p.segments[depth-1])
		at = up
	}
	return nil
}
