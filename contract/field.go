package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ErrWrongType matches, with errors.Is, every error about a value whose type differs from the one in the contract.
var ErrWrongType = errors.New("wrong type")

// errNoPlace is returned when a value is set in a nil object or through the zero Field, which a layout has for a value that it cannot
// store.
var errNoPlace = errors.New("the layout has no place for this value")

// FieldError reports a value of the wrong type in an object. It matches ErrWrongType.
type FieldError struct {
	// Path is the path of the value.
	Path Path
	// Want is a type name (string, bool, integer, 32-bit integer, object, list), or the required format of a text.
	Want string
	// Got is a type name (also number and null), "nothing" for a missing member, or a description of the invalid value.
	Got string
}

// Error returns the dotted path, the wanted type and the found type.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: want %s, found %s", e.Path, e.Want, e.Got)
}

// Is reports true for ErrWrongType.
func (e *FieldError) Is(target error) bool { return target == ErrWrongType }

// scalar is a type that can be stored as text in an annotation.
type scalar interface {
	string | bool | int32 | int64
}

// fieldValue lists the types that a Field can hold.
type fieldValue interface {
	scalar | time.Time | time.Duration | intstr.IntOrString | json.RawMessage |
		map[string]string | *metav1.LabelSelector |
		[]string | []Address | []NodeRef | []Taint | []ReadinessGate | []HealthRule | []metav1.OwnerReference
}

// form distinguishes the encodings of values of one type.
type form uint8

const (
	// formPlain is the only form of most types. A duration is text such as "1m30s".
	formPlain form = iota
	// formText is a scalar as text in an annotation.
	formText
	// formSeconds is a duration, or the timeouts of rules, as whole seconds in a 32-bit integer.
	formSeconds
	// formVersions is a list of texts as a list of objects with a version.
	formVersions
)

// Field is the immutable place of one value in an object: a path, or an annotation for state that has no field in the served schema. The
// zero Field has no place and reads as absent. Safe for concurrent use as long as no goroutine writes the object.
type Field[T fieldValue] struct {
	path Path
	form form
}

// At returns the Field at the given keys. T is one of
//   - string, bool, int32 and int64
//   - time.Time, which is RFC 3339 text, and time.Duration, which is text such as "1m30s" (see SecondsAt)
//   - intstr.IntOrString, a number or a text such as "25%"
//   - []string, map[string]string, corev1.ResourceList and *metav1.LabelSelector
//   - json.RawMessage, an object whose content only another component interprets
//   - the list types of this package: []Address, []NodeRef, []Taint, []ReadinessGate and []HealthRule
func At[T fieldValue](segments ...string) Field[T] { return Field[T]{path: NewPath(segments...)} }

// AtAnnotation returns the Field of the annotation with the given key, whose value is text ("true", "-7"). Text that cannot be parsed as T
// is a value of the wrong type.
func AtAnnotation[T scalar | time.Time](key string) Field[T] {
	f := Field[T]{path: NewPath("metadata", "annotations", key), form: formText}
	if _, isTime := any(f).(Field[time.Time]); isTime {
		f.form = formPlain // a time is always text
	}
	return f
}

// Path returns the path of the field, the zero Path when the layout has none.
func (f Field[T]) Path() Path { return f.path }

// Get reads the value. An absent field, or a null parent, is found=false without an error. Another type is an error that matches
// ErrWrongType, and so are an explicit null at the path itself (as in Cluster API's accessors) and an integer that an int32 cannot hold. A
// zero value is found. For a time, a map, a selector or JSON, null is absent; for a time, the empty text is too.
//
// A text, number, flag, time or duration is read without an allocation unless that fails. Any other value is a copy that shares strings
// with obj. Get neither changes nor retains obj, which may be nil.
func (f Field[T]) Get(obj map[string]any) (value T, found bool, err error) {
	found, err = f.read(obj, &value)
	return value, found, err
}

// read reads the value into a variable, which becomes zero when the value is absent. While a list, a map or a selector equals that in the
// variable, it stays, so that reading an unchanged object allocates nothing. What the variable held is never changed.
func (f Field[T]) read(obj map[string]any, into *T) (found bool, err error) {
	raw, found, err := lookup(f.path.segments, obj)
	if found {
		found, err = f.decode(raw, into)
	}
	if !found || err != nil {
		var none T
		*into = none
		return false, err
	}
	return true, nil
}

func (f Field[T]) decode(raw any, into *T) (found bool, err error) {
	if f.form == formText {
		return true, f.parse(raw, into)
	}
	if value, ok := convert[T](raw); ok {
		*into = value
		return true, nil
	}
	found = raw != nil
	switch into := any(into).(type) {
	case *time.Time:
		*into, found, err = timeOf(f.path, raw)
	case *time.Duration:
		*into, err = durationOf(f.path, f.form, raw)
	case *intstr.IntOrString:
		*into, err = intOrStringOf(f.path, raw)
	case *json.RawMessage:
		*into, err = jsonOf(f.path, raw)
	case *map[string]string:
		*into, err = textMapOf(f.path, raw, *into)
	case **metav1.LabelSelector:
		*into, err = selectorOf(f.path, raw, *into)
	default:
		return true, f.decodeList(raw, into)
	}
	return found, err
}

func (f Field[T]) decodeList(raw, into any) (err error) {
	switch into := into.(type) {
	case *[]string:
		if f.form == formVersions {
			*into, err = entriesAt(f.path, raw, *into, readVersion)
		} else {
			*into, err = textsOf(f.path, raw, *into)
		}
	case *[]Address:
		*into, err = entriesAt(f.path, raw, *into, readAddress)
	case *[]NodeRef:
		*into, err = entriesAt(f.path, raw, *into, readNodeRef)
	case *[]Taint:
		*into, err = entriesAt(f.path, raw, *into, readTaint)
	case *[]ReadinessGate:
		*into, err = entriesAt(f.path, raw, *into, readGate)
	case *[]HealthRule:
		*into, err = rulesOf(f.path, f.form, raw, *into)
	case *[]metav1.OwnerReference:
		*into, err = ownersOf(f.path, raw, *into)
	default:
		err = f.wrong(raw)
	}
	return err
}

// written lists the types that Set writes; the layouts of kinds write lists too.
type written interface {
	scalar | time.Time | time.Duration
}

type fieldContent interface {
	written | []string | []Address | []NodeRef | []metav1.OwnerReference
}

// Set writes a value to its path in obj and creates missing parents. It replaces a value of any type at the path itself. For the zero
// Field, a nil obj, or a parent of the wrong type (a FieldError), it returns an error and does not change obj.
//
// A time is written in UTC, truncated to the second. A duration in seconds is rounded up, so that no limit becomes shorter than requested;
// one that does not fit in 32 bits is an error.
func Set[T written](f Field[T], obj map[string]any, value T) error {
	return write(f, obj, value)
}

func write[T fieldContent](f Field[T], obj map[string]any, value T) error {
	if f.form == formText {
		return f.path.set(obj, fmt.Sprint(value))
	}
	var content any = value
	var err error
	switch value := any(value).(type) {
	case int32:
		content = int64(value) // unstructured content has one integer type
	case time.Time:
		content = rfc3339(value)
	case time.Duration:
		content, err = durationContent(f.path, f.form, value)
	case []string:
		content = listOf(value, func(text string) any { return text })
	case []Address:
		content = listOf(value, addressContent)
	case []NodeRef:
		content = listOf(value, nodeRefContent)
	case []metav1.OwnerReference:
		content = listOf(value, ownerContent)
	}
	if err != nil {
		return err
	}
	return f.path.set(obj, content)
}

func listOf[T any](values []T, content func(T) any) []any {
	items := make([]any, 0, len(values))
	for _, v := range values {
		items = append(items, content(v))
	}
	return items
}

func (f Field[T]) parse(raw any, into *T) error {
	text, ok := raw.(string)
	if !ok {
		return f.wrong(raw)
	}
	var err error
	switch p := any(into).(type) {
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
		return &FieldError{Path: f.path, Want: f.want(), Got: "unreadable text"}
	}
	return nil
}

func (f Field[T]) wrong(raw any) error {
	return &FieldError{Path: f.path, Want: f.want(), Got: gotNumber(raw)}
}

// gotNumber returns the type name of a value, with the number for an integer that does not fit in 32 bits.
func gotNumber(raw any) string {
	if wide, ok := raw.(int64); ok && !fitsInt32(wide) {
		return "integer " + strconv.FormatInt(wide, 10)
	}
	return typeName(raw)
}

func (f Field[T]) want() string {
	var zero T
	if _, narrow := any(zero).(int32); narrow {
		return "32-bit integer"
	}
	return typeName(zero)
}

func convert[T fieldValue](raw any) (value T, ok bool) {
	if value, ok = raw.(T); ok {
		return value, true
	}
	narrow, isNarrow := any(&value).(*int32)
	wide, isWide := raw.(int64) // unstructured content has one integer type
	if !isNarrow || !isWide || !fitsInt32(wide) {
		return value, false
	}
	*narrow = int32(wide)
	return value, true
}

func fitsInt32(n int64) bool { return n >= math.MinInt32 && n <= math.MaxInt32 }

// typeName returns the name of a JSON type as in FieldError, or the Go type of a value that JSON content cannot hold.
func typeName(v any) string {
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
