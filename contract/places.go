package contract

import (
	"reflect"
	"slices"
)

// Need says how much a contract insists on a field.
type Need string

// The words of the contract. Fields of Machines and their sets, which are an API and no contract, have NeedNone.
const (
	NeedNone     Need = ""
	NeedMust     Need = "MUST"
	NeedShould   Need = "SHOULD"
	NeedOptional Need = "MAY"
)

// Place is a field of a layout as documentation and checks see it.
type Place struct {
	// Name is the name of the member of the layout: "Provisioned".
	Name string
	// Type names what is there, as in FieldError: "bool", "32-bit integer", "time", "list of addresses".
	Type string
	// Paths are where it is, in the order in which they are looked at. None means that the layout has no place for it.
	Paths []Path
	// Need is what the contract demands.
	Need Need
	// Writer is who writes the field: "provider", "user", "controller".
	Writer string
	// Absent is what a missing value means.
	Absent string
}

// leaf is a field type: it says what it holds and where.
type leaf interface {
	describe() (typeName string, paths []Path)
}

// Places returns every field of a layout in the order of its members; layout is a pointer to one of this package's layout
// types. Members that are layouts themselves are named through ("Template.Version"), embedded ones are not. Of anything
// else, and of nil, it returns nothing.
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
		if what, ok := reflect.TypeAssert[leaf](field); ok {
			typeName, paths := what.describe()
			places = append(places, Place{
				Name: prefix + member.Name, Type: typeName, Paths: slices.DeleteFunc(paths, Path.IsZero),
				Need: Need(member.Tag.Get("need")), Writer: member.Tag.Get("by"), Absent: member.Tag.Get("absent"),
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

func (f Field[T]) describe() (string, []Path)        { return f.want(), []Path{f.path} }
func (f TimeField) describe() (string, []Path)       { return "time", []Path{f.path} }
func (f TextsField) describe() (string, []Path)      { return "list of strings", []Path{f.path} }
func (f VersionsField) describe() (string, []Path)   { return "list of versions", []Path{f.path} }
func (f ContentField) describe() (string, []Path)    { return "object", []Path{f.path} }
func (f ContentsField) describe() (string, []Path)   { return "content", slices.Clone(f.paths) }
func (f AddressesField) describe() (string, []Path)  { return "list of addresses", []Path{f.path} }
func (f ConditionsField) describe() (string, []Path) { return "list of conditions", f.Paths() }
func (f TaintsField) describe() (string, []Path)     { return "list of taints", []Path{f.path} }
func (f ReadinessGatesField) describe() (string, []Path) {
	return "list of readiness gates", []Path{f.path}
}

func (f DurationField) describe() (string, []Path) {
	if f.text {
		return "duration", []Path{f.path}
	}
	return "seconds", []Path{f.path}
}

func (f RefField) describe() (string, []Path) {
	segments := f.Name.path.Segments()
	return "reference", []Path{NewPath(segments[:max(0, len(segments)-1)]...)}
}
