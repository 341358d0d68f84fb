package contract

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// placesAt returns the paths of dotted texts.
func placesAt(places ...string) []Path {
	paths := make([]Path, 0, len(places))
	for _, place := range places {
		paths = append(paths, NewPath(strings.Split(place, ".")...))
	}
	return paths
}

// covers reports whether a path equals one of places or is below one.
func covers(places []Path, at Path) bool {
	return slices.ContainsFunc(places, func(p Path) bool {
		return len(p.segments) <= len(at.segments) && slices.Equal(p.segments, at.segments[:len(p.segments)])
	})
}

var errNothingMade = errors.New("the layouts do not agree on what a template makes Machines of (MadeOf)")

// madeParts returns the paths of two templates that decide which machine is made. The two references are last.
func madeParts(a, b *MachineTemplateLayout) (ofA, ofB []Path, err error) {
	if len(a.MadeOf) == 0 || len(a.MadeOf) != len(b.MadeOf) {
		return nil, nil, errNothingMade
	}
	return append(slices.Clone(a.MadeOf), a.Bootstrap.at(), a.Infrastructure.at()),
		append(slices.Clone(b.MadeOf), b.Bootstrap.at(), b.Infrastructure.at()), nil
}

// at returns the path of the whole reference, the zero Path when there is none.
func (f RefField) at() Path {
	segments := f.Name.path.segments
	return NewPath(segments[:max(0, len(segments)-1)]...)
}

// templateDiff compares the parts of two templates that decide which machine is made.
func templateDiff(of *ReplicatedLayout, deployment map[string]any, in *ReplicatedLayout, set map[string]any) ([]string, error) {
	own, err := ownLabels(of, deployment, in, set)
	if err != nil {
		return nil, err
	}
	mine, theirs, err := madeParts(&of.Template, &in.Template)
	if err != nil {
		return nil, err
	}
	labels, refs := of.Template.Labels.path.String(), mine[len(mine)-2:]
	d := differences{skip: func(at Path) bool {
		key, inLabels := strings.CutPrefix(at.text, labels+".")
		return inLabels && own[key] || at.text == refs[0].text || at.text == refs[1].text
	}}
	for i, at := range of.Template.MadeOf {
		want, _, err := lookup(at.segments, deployment)
		if err != nil {
			return nil, err
		}
		have, _, err := lookup(theirs[i].segments, set)
		if err != nil {
			return nil, err
		}
		d.compare(at, want, have)
	}
	r, s := exchange{obj: deployment}, exchange{obj: set}
	if r.ref(of.Template.Bootstrap) != s.ref(in.Template.Bootstrap) {
		d.places = append(d.places, refs[0].text)
	}
	if r.ref(of.Template.Infrastructure) != s.ref(in.Template.Infrastructure) {
		d.places = append(d.places, refs[1].text)
	}
	slices.Sort(d.places)
	return d.places, errors.Join(r.err, s.err)
}

// ownLabels returns the labels that distinguish the Machines of a set from those of the other sets of its deployment: the labels in the
// selector of the set that the selector of the deployment lacks.
func ownLabels(of *ReplicatedLayout, deployment map[string]any, in *ReplicatedLayout, set map[string]any) (map[string]bool, error) {
	all, _, err := of.Selector.Get(deployment)
	if err != nil {
		return nil, err
	}
	some, _, err := in.Selector.Get(set)
	if err != nil || some == nil {
		return nil, err
	}
	own := map[string]bool{}
	for key := range some.MatchLabels {
		if all == nil || all.MatchLabels[key] == "" {
			own[key] = true
		}
	}
	return own, nil
}

// copyTemplate copies the parts that decide which machine is made from the template of a set to that of a deployment.
func copyTemplate(in *ReplicatedLayout, set map[string]any, of *ReplicatedLayout, deployment map[string]any) error {
	own, err := ownLabels(of, deployment, in, set)
	if err != nil {
		return err
	}
	from, into, err := madeParts(&in.Template, &of.Template)
	if err != nil {
		return err
	}
	for i := range from {
		if err := copyContent(set, from[i], deployment, into[i]); err != nil {
			return err
		}
	}
	labels := of.Template.Labels.path
	if !covers(of.Template.MadeOf, labels) {
		return nil
	}
	for key := range own {
		if err := NewPath(append(labels.Segments(), key)...).clear(deployment); err != nil {
			return err
		}
	}
	return nil
}

// differences collects the paths at which two contents differ.
type differences struct {
	skip   func(at Path) bool
	places []string
}

func (d *differences) compare(at Path, want, have any) {
	if reflect.DeepEqual(want, have) || d.skip(at) || blank(want) && blank(have) {
		return
	}
	mine, ok := want.(map[string]any)
	theirs, ok2 := have.(map[string]any)
	if want != nil && !ok || have != nil && !ok2 {
		d.places = append(d.places, at.text)
		return
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(mine)), maps.Keys(theirs))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		d.compare(NewPath(append(at.Segments(), key)...), mine[key], theirs[key])
	}
}

// blank reports whether content is empty: null, the empty text, or an object or a list with only blank content.
func blank(content any) bool {
	switch content := content.(type) {
	case nil:
		return true
	case string:
		return content == ""
	case []any:
		return len(content) == 0
	case map[string]any:
		for _, member := range content {
			if !blank(member) {
				return false
			}
		}
		return true
	}
	return false
}

// inPlace is a field that is copied from another object while a machine runs.
type inPlace struct {
	name       string
	from, into Path
	// sync copies the value from source to target, and reports whether the source has one.
	sync func(source, target map[string]any) (found bool, err error)
}

// specInPlace returns the fields of a template that Machines and sets follow in place.
func specInPlace(from, into *MachineSpecLayout) []inPlace {
	fields := append(make([]inPlace, 0, 6+len(from.InPlace)),
		durationInPlace("minReady", from.MinReady, into.MinReady),
		durationInPlace("nodeDeletionTimeout", from.NodeDeletionTimeout, into.NodeDeletionTimeout),
		durationInPlace("nodeDrainTimeout", from.NodeDrainTimeout, into.NodeDrainTimeout),
		durationInPlace("nodeVolumeDetachTimeout", from.NodeVolumeDetachTimeout, into.NodeVolumeDetachTimeout),
		contentInPlace("readinessGates", from.ReadinessGates.path, into.ReadinessGates.path, isEmptyList),
		contentInPlace("taints", from.Taints.path, into.Taints.path, isEmptyList),
	)
	for i := range min(len(from.InPlace), len(into.InPlace)) {
		fields = append(fields, contentInPlace[any](from.InPlace[i].text, from.InPlace[i], into.InPlace[i], nil))
	}
	return fields
}

// contentInPlace copies content of type T, including members that only newer versions of the shape have. Null is absent, and so is what
// isAbsent reports, if it is not nil: an empty list or text must not remove what another writer has added.
func contentInPlace[T any](name string, from, into Path, isAbsent func(T) bool) inPlace {
	return inPlace{name, from, into, func(source, target map[string]any) (bool, error) {
		want, _, err := lookup(from.segments, source)
		if err != nil || want == nil {
			return false, err
		}
		typed, ok := want.(T)
		if !ok {
			return false, &FieldError{Path: from, Want: typeName(typed), Got: typeName(want)}
		}
		if isAbsent != nil && isAbsent(typed) {
			return false, nil
		}
		return true, copyContent(source, from, target, into)
	}}
}

func isEmptyList(list []any) bool { return len(list) == 0 }

func isEmptyText(text string) bool { return text == "" }

// durationInPlace compares and writes by value: one object may have texts where the other has seconds.
func durationInPlace(name string, from, into Field[time.Duration]) inPlace {
	return inPlace{name, from.path, into.path, func(source, target map[string]any) (bool, error) {
		want, found, err := from.Get(source)
		if err != nil || !found {
			return false, err
		}
		if have, there, err := into.Get(target); err == nil && there && have == want {
			return true, nil
		}
		return true, Set(into, target, want)
	}}
}

// entriesInPlace returns one field for each entry of a map that the source has or had (given). With separate fields, entries of other
// writers are preserved.
func entriesInPlace(prefix string, from, into Path, source map[string]any, given []string) ([]inPlace, error) {
	entries, err := templateObject(source, from.segments...)
	if err != nil {
		return nil, err
	}
	keys := slices.Collect(maps.Keys(entries))
	for _, name := range given {
		if key, ours := strings.CutPrefix(name, prefix); ours {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var fields []inPlace
	for _, key := range slices.Compact(keys) {
		fields = append(fields, contentInPlace[string](prefix+key, from.below(key), into.below(key), nil))
	}
	return fields, nil
}

// syncFields copies each field to the target, except those that decide which machine is made, and removes fields in given that the source
// no longer has. It returns the names of the fields that the source has.
func syncFields(fields []inPlace, madeOf []Path, source, target map[string]any, given []string) (now []string, err error) {
	for _, field := range fields {
		if field.into.IsZero() || covers(madeOf, field.from) {
			continue
		}
		found, err := field.sync(source, target)
		switch {
		case err != nil:
			return nil, err
		case found:
			now = append(now, field.name)
		case slices.Contains(given, field.name):
			if err := field.into.clear(target); err != nil {
				return nil, err
			}
		}
	}
	return now, nil
}

// copyContent replaces the content at a path of target with a copy of the content at a path of source.
func copyContent(source map[string]any, from Path, target map[string]any, into Path) error {
	if from.IsZero() || into.IsZero() {
		return nil
	}
	content, _, err := lookup(from.segments, source)
	if err != nil {
		return err
	}
	if content == nil {
		return into.clear(target)
	}
	copied, err := copyJSON(content, from.segments...)
	if err != nil {
		return err
	}
	return into.set(target, copied)
}
