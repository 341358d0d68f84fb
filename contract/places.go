package contract

import (
	"cmp"
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
	of := reflect.TypeFor[T]()
	switch {
	case of == reflect.TypeFor[[]string]() && f.form == formVersions:
		return "list of versions"
	case of == reflect.TypeFor[time.Duration]() && f.form == formSeconds:
		return "seconds"
	case of == reflect.TypeFor[[]HealthRule]():
		return "list of rules with " + ruleTimeouts[f.form].path.text
	}
	return cmp.Or(typeNames[of], f.want())
}

var typeNames = map[reflect.Type]string{
	reflect.TypeFor[time.Time]():             "time",
	reflect.TypeFor[time.Duration]():         "duration",
	reflect.TypeFor[intstr.IntOrString]():    "32-bit integer or percentage",
	reflect.TypeFor[json.RawMessage]():       "object",
	reflect.TypeFor[map[string]string]():     "map of strings",
	reflect.TypeFor[*metav1.LabelSelector](): "label selector",
	reflect.TypeFor[[]string]():              "list of strings",
	reflect.TypeFor[[]Address]():             "list of addresses",
	reflect.TypeFor[[]NodeRef]():             "list of Nodes",
	reflect.TypeFor[[]Taint]():               "list of taints",
	reflect.TypeFor[[]ReadinessGate]():       "list of readiness gates",
}

func (f ConditionsField) describe() (string, []Path) { return "list of conditions", f.Paths() }

func (f RefField) describe() (string, []Path) { return "reference", []Path{f.at()} }
