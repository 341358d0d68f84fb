package contract

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Need is the requirement level of a field in a contract.
type Need string

// The requirement levels of the contract. Fields of Machines and their sets have none, because they are an API and not a contract.
const (
	NeedMust     Need = "MUST"
	NeedShould   Need = "SHOULD"
	NeedOptional Need = "MAY"
)

// Place describes a field of a layout, for documentation and checks.
type Place struct {
	// Name is the name of the member of the layout: "Provisioned".
	Name string
	// Type is the type of the value, as in FieldError: "bool", "32-bit integer", "time", "list of addresses".
	Type string
	// Paths are the paths of the field in the order of precedence; empty when the layout has no place for it.
	Paths []Path
	// Need is the requirement level in the contract.
	Need Need
	// Writer is the writer of the field: "provider", "user", "controller".
	Writer string

	leaf leaf
}

// Read reads every path of the place as the layout's reader does. The errors match ErrWrongType.
func (p Place) Read(obj map[string]any) (found bool, errs []error) {
	if p.leaf == nil {
		return false, nil
	}
	return p.leaf.check(obj)
}

// leaf is a field type: it describes its content and paths, and checks whether a value is readable.
type leaf interface {
	describe() (typeName string, paths []Path)
	check(obj map[string]any) (found bool, errs []error)
}

func (f Field[T]) check(obj map[string]any) (found bool, errs []error) {
	_, found, err := f.Get(obj)
	if err != nil {
		errs = []error{err}
	}
	return found, errs
}

func (f ConditionsField) check(obj map[string]any) (found bool, errs []error) {
	for _, place := range f.places {
		list, err := ConditionsField{places: []conditionPlace{place}}.Get(obj, nil)
		if err != nil {
			errs = append(errs, err)
		}
		found = found || len(list) > 0
	}
	return found, errs
}

func (f RefField) check(obj map[string]any) (found bool, errs []error) {
	r := exchange{obj: obj}
	ref := r.ref(f)
	if r.err != nil {
		errs = []error{r.err}
	}
	return !ref.IsZero(), errs
}

// anywhere lists paths of any content.
type anywhere []Path

func (a anywhere) describe() (string, []Path)           { return "content", slices.Clone(a) }
func (a anywhere) check(map[string]any) (bool, []error) { return false, nil }

// leafOf returns the field type in a member of a layout.
func leafOf(member reflect.Value) (leaf, bool) {
	if paths, ok := reflect.TypeAssert[[]Path](member); ok {
		return anywhere(paths), true
	}
	return reflect.TypeAssert[leaf](member)
}

// Places returns every field of a layout in the order of its members; layout is a pointer to one of this package's layout types. Members of
// nested layouts have dotted names ("Template.Version"); those of embedded layouts do not. For any other argument, and for nil, it returns
// nothing.
func Places(layout any) []Place {
	v := reflect.ValueOf(layout)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	return placesIn(v.Elem(), "")
}

func placesIn(v reflect.Value, prefix string) []Place {
	var places []Place
	for _, member := range reflect.VisibleFields(v.Type()) {
		if !member.IsExported() || len(member.Index) > 1 {
			continue
		}
		field := v.FieldByIndex(member.Index)
		if what, ok := leafOf(field); ok {
			typeName, paths := what.describe()
			places = append(places, Place{
				Name: prefix + member.Name, Type: typeName, Paths: slices.DeleteFunc(paths, Path.IsZero),
				Need: Need(member.Tag.Get("need")), Writer: member.Tag.Get("by"), leaf: what,
			})
			continue
		}
		if field.Kind() != reflect.Struct {
			continue
		}
		inner := prefix + member.Name + "."
		if member.Anonymous {
			inner = prefix
		}
		places = append(places, placesIn(field, inner)...)
	}
	return places
}

func (f Field[T]) describe() (string, []Path) { return f.typeName(), []Path{f.path} }

// typeName returns the name of the field's type, as in Place.Type.
func (f Field[T]) typeName() string {
	var zero T
	switch any(zero).(type) {
	case time.Time:
		return "time"
	case intstr.IntOrString:
		return "32-bit integer or percentage"
	case json.RawMessage:
		return "object"
	case map[string]string:
		return "map of strings"
	case *metav1.LabelSelector:
		return "label selector"
	case time.Duration:
		return map[form]string{formPlain: "duration", formSeconds: "seconds"}[f.form]
	case []HealthRule:
		return "list of rules with " + ruleTimeouts[f.form].path.text
	case []string:
		return map[form]string{formPlain: "list of strings", formVersions: "list of versions"}[f.form]
	case []Address:
		return "list of addresses"
	case []NodeRef:
		return "list of Nodes"
	case []Taint:
		return "list of taints"
	case []ReadinessGate:
		return "list of readiness gates"
	}
	return f.want()
}

func (f ConditionsField) describe() (string, []Path) { return "list of conditions", f.Paths() }

func (f RefField) describe() (string, []Path) {
	segments := f.Name.path.Segments()
	return "reference", []Path{NewPath(segments[:max(0, len(segments)-1)]...)}
}
