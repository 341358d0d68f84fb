package contract

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// ErrWrongType matches, with errors.Is, every error about a value of another type than the contract wants.
var ErrWrongType = errors.New("wrong type")

// ErrNoPlace is returned when a value is set through the zero Field, which a layout has where it has no place for a value,
// or into a nil object.
var ErrNoPlace = errors.New("the layout has no place for this value")

// FieldError says which place of an object holds a value of the wrong type. It matches ErrWrongType.
type FieldError struct {
	// Path is the place.
	Path Path
	// Want is a type name (string, bool, integer, 32-bit integer, object, list), or the form that a text must have.
	Want string
	// Got is a type name (also number and null), "nothing" for a member that is missing, or says what is wrong with the value.
	Got string
}

// Error names the dotted path, the wanted and the found type.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: want %s, found %s", e.Path, e.Want, e.Got)
}

// Is makes errors.Is(err, ErrWrongType) true.
func (e *FieldError) Is(target error) bool { return target == ErrWrongType }

// Scalar is the set of types that a Field can hold.
type Scalar interface {
	string | bool | int32 | int64
}

// Field is an immutable place of one scalar in an object: a path, or an annotation for state that the served schema has
// no field for. The zero Field is "no such place": it reads as absent. Safe for concurrent use as long as no goroutine writes
// the object.
type Field[T Scalar] struct {
	path       Path
	annotation string
}

// At returns the Field at the given keys.
func At[T Scalar](segments ...string) Field[T] { return Field[T]{path: NewPath(segments...)} }

// AtAnnotation returns the Field that lives in the annotation with this key, written as text ("true", "-7"). Text that
// cannot be parsed as T is read as a wrong type.
func AtAnnotation[T Scalar](key string) Field[T] {
	return Field[T]{path: NewPath("metadata", "annotations", key), annotation: key}
}

// Path returns the place; it is the zero Path when the layout has none.
func (f Field[T]) Path() Path { return f.path }

// Get reads the value. An absent field, or a null on the way to it, is found=false without an error; another type is an
// error that matches ErrWrongType, and so is an explicit null at the place itself (Cluster API's accessors draw the same
// line), an integer that an int32 cannot hold and a string of more than 1 MiB. A zero value is found. It allocates nothing unless
// it fails, and neither changes nor keeps obj, which may be nil.
func (f Field[T]) Get(obj map[string]any) (value T, found bool, err error) {
	raw, found, err := lookup(f.path.segments, obj)
	if err != nil || !found {
		return value, false, err
	}
	if f.annotation != "" {
		return f.parse(raw)
	}
	value, ok := convert[T](raw)
	if !ok {
		return value, false, f.wrong(raw)
	}
	if text, ok := raw.(string); ok && len(text) > maxText {
		var none T
		return none, false, boundText(f.path.segments, text)
	}
	return value, true, nil
}

// Set writes the value and makes the objects on the way. It fails, leaving obj as it was, with ErrNoPlace on the zero
// Field or a nil obj, and with a FieldError when a value of another type stands on the way. What is at the place itself is
// replaced, whatever its type.
func (f Field[T]) Set(obj map[string]any, value T) error {
	if f.annotation != "" {
		return f.path.set(obj, fmt.Sprint(value))
	}
	if narrow, ok := any(value).(int32); ok {
		return f.path.set(obj, int64(narrow)) // unstructured content knows one integer type
	}
	return f.path.set(obj, value)
}

// Clear removes the value, and the objects around it that became empty by that, up to but without the first key of the
// path. Clearing an absent value does nothing. It fails like Set when a value of another type stands on the way.
func (f Field[T]) Clear(obj map[string]any) error { return f.path.clear(obj) }

func (f Field[T]) parse(raw any) (value T, found bool, err error) {
	text, ok := raw.(string)
	if !ok {
		return value, false, f.wrong(raw)
	}
	if err := boundText(f.path.segments, text); err != nil {
		return value, false, err
	}
	switch p := any(&value).(type) {
	case *string:
		*p = text
	case *bool:
		*p, err = strconv.ParseBool(text)
	case *int64:
		*p, err = strconv.ParseInt(text, 10, 64)
	case *int32:
		var wide int64
		wide, err = strconv.ParseInt(text, 10, 32)
		*p = int32(wide)
	}
	if err != nil {
		var none T // the parser leaves its nearest guess
		return none, false, &FieldError{Path: f.path, Want: f.want(), Got: "unreadable text"}
	}
	return value, true, nil
}

func (f Field[T]) wrong(raw any) error {
	got := TypeName(raw)
	if wide, ok := raw.(int64); ok && !fitsInt32(wide) {
		got = "integer " + strconv.FormatInt(wide, 10)
	}
	return &FieldError{Path: f.path, Want: f.want(), Got: got}
}

func (f Field[T]) want() string {
	var zero T
	if _, narrow := any(zero).(int32); narrow {
		return "32-bit integer"
	}
	return TypeName(zero)
}

func convert[T Scalar](raw any) (value T, ok bool) {
	if value, ok = raw.(T); ok {
		return value, true
	}
	narrow, isNarrow := any(&value).(*int32)
	wide, isWide := raw.(int64) // unstructured content knows one integer type
	if !isNarrow || !isWide || !fitsInt32(wide) {
		return value, false
	}
	*narrow = int32(wide)
	return value, true
}

func fitsInt32(n int64) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// TypeName names a JSON type as a FieldError does, or the Go type of a value that JSON content cannot hold.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "bool"
	case int64:
		return "integer"
	case float64:
		return "number"
	case map[string]any:
		return "object"
	case []any:
		return "list"
	default:
		return fmt.Sprintf("%T", v)
	}
}
