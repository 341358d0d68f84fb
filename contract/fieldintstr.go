package contract

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// IntOrStringField is the place of a number or of a text such as "25%", as limits of sets are given. The zero
// IntOrStringField is "no such place": it reads as absent. Safe for concurrent use as long as the object is not written.
type IntOrStringField struct{ path Path }

// IntOrStringAt returns the IntOrStringField at the given keys.
func IntOrStringAt(segments ...string) IntOrStringField {
	return IntOrStringField{path: NewPath(segments...)}
}

// Get reads the value. Zero and the empty text are found, and a text is returned as it stands: whether it is a percentage
// matters to those who scale with it (intstr.GetScaledValueFromIntOrPercent). Another type is an error that matches
// ErrWrongType, and so are an explicit null, an integer that 32 bits cannot hold and a text of more than
// 1 MiB. It allocates nothing unless it fails.
func (f IntOrStringField) Get(obj map[string]any) (value intstr.IntOrString, found bool, err error) {
	raw, found, err := lookup(f.path.segments, obj)
	if err != nil || !found {
		return value, false, err
	}
	if text, ok := raw.(string); ok {
		if err := boundText(f.path.segments, text); err != nil {
			return value, false, err
		}
		return intstr.FromString(text), true, nil
	}
	if number, ok := convert[int32](raw); ok {
		return intstr.FromInt32(number), true, nil
	}
	got := TypeName(raw)
	if wide, ok := raw.(int64); ok {
		got += " " + strconv.FormatInt(wide, 10)
	}
	return value, false, &FieldError{Path: f.path, Want: "32-bit integer or string", Got: got}
}

func (f IntOrStringField) describe() (string, []Path) {
	return "32-bit integer or percentage", []Path{f.path}
}

func (r *reader) intOrString(f IntOrStringField) Opt[intstr.IntOrString] {
	if r.err != nil {
		return Opt[intstr.IntOrString]{}
	}
	value, found, err := f.Get(r.obj)
	r.err = err
	return Opt[intstr.IntOrString]{value: value, found: found}
}
