package contract

import (
	"errors"
	"slices"
	"time"
)

// Leaf is a field of a layout, or a reference, which consists of several fields.
type Leaf = leaf

// LeafOf returns the field in a member of a layout.
var LeafOf = leafOf

// Layout is a table of fields.
type Layout[S, U any] = layout[S, U]

// Anywhere are places of any content.
type Anywhere = anywhere

// ErrNoPlace and the others are errors that no caller tells apart.
var (
	ErrNoPlace      = errNoPlace
	ErrNotATemplate = errNotATemplate
	ErrNoCloneName  = errNoCloneName
)

// PathOf returns the first place of a field, the zero Path when the layout has none.
func PathOf(field Leaf) Path {
	_, paths := field.describe()
	if len(paths) == 0 {
		return Path{}
	}
	return paths[0]
}

// Describe returns what a field holds and its places.
func Describe(field Leaf) (typeName string, paths []Path) {
	typeName, paths = field.describe()
	return typeName, slices.DeleteFunc(paths, Path.IsZero)
}

// InSeconds reports whether a duration is a number of seconds rather than text.
func InSeconds(f Field[time.Duration]) bool { return f.form == formSeconds }

// RulesInSeconds reports whether the timeouts at a place are numbers of seconds.
func RulesInSeconds(f Field[[]HealthRule]) bool { return f.form == formSeconds }

// AreVersions reports whether a field reads the versions in a list of objects.
func AreVersions(f Field[[]string]) bool { return f.form == formVersions }

// Clear removes what is at a place, and the objects around it that became empty by that.
func Clear[T fieldValue](f Field[T], obj map[string]any) error { return f.path.clear(obj) }

// Check returns what is wrong with what a field reads.
func Check(l Leaf, obj map[string]any) error {
	_, errs := l.check(obj)
	return errors.Join(errs...)
}
