package contract

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// inPlace is a field that follows the same field of another object while a machine runs.
type inPlace struct {
	name       string
	from, into Path
	// sync reports whether the source says anything, and gives the target what it says.
	sync func(source, target map[string]any) (said bool, err error)
}

// specInPlace are the fields of a template that Machines and sets follow in place.
func specInPlace(from, into *MachineSpecLayout) []inPlace {
	fields := append(make([]inPlace, 0, 6+len(from.InPlace)),
		durationInPlace("minReady", from.MinReady, into.MinReady),
		durationInPlace("nodeDeletionTimeout", from.NodeDeletionTimeout, into.NodeDeletionTimeout),
		durationInPlace("nodeDrainTimeout", from.NodeDrainTimeout, into.NodeDrainTimeout),
		durationInPlace("nodeVolumeDetachTimeout", from.NodeVolumeDetachTimeout, into.NodeVolumeDetachTimeout),
		listInPlace("readinessGates", from.ReadinessGates.path, into.ReadinessGates.path),
		listInPlace("taints", from.Taints.path, into.Taints.path),
	)
	for i := range min(len(from.InPlace), len(into.InPlace)) {
		fields = append(fields, contentInPlace(from.InPlace[i], into.InPlace[i]))
	}
	return fields
}

// contentInPlace copies whatever there is, and is called after its place in the source. Null is none.
func contentInPlace(from, into Path) inPlace {
	return inPlace{from.text, from, into, func(source, target map[string]any) (bool, error) {
		want, _, err := lookup(from.segments, source)
		if err != nil || want == nil {
			return false, err
		}
		have, _, err := lookup(into.segments, target)
		if err != nil || equal(have, want) {
			return true, err
		}
		return true, copyContent(source, from, target, into)
	}}
}

// durationInPlace writes by value: two texts of one duration are the same.
func durationInPlace(name string, from, into Field[time.Duration]) inPlace {
	return inPlace{name, from.path, into.path, func(source, target map[string]any) (bool, error) {
		want, found, err := from.Get(source)
		if err != nil || !found {
			return false, err
		}
		have, there, err := into.Get(target)
		if err == nil && there && have == want {
			return true, nil
		}
		return true, Set(into, target, want)
	}}
}

// listInPlace copies a list as a whole, with members that only newer versions of the shape know. An empty one is none.
func listInPlace(name string, from, into Path) inPlace {
	return inPlace{name, from, into, func(source, target map[string]any) (bool, error) {
		want, found, err := listAt(from, source)
		if err != nil || !found || len(want) == 0 {
			return false, err
		}
		return contentInPlace(from, into).sync(source, target)
	}}
}

// textInPlace copies a text. An empty one is none.
func textInPlace(name string, from, into Field[string]) inPlace {
	return inPlace{name, from.path, into.path, func(source, target map[string]any) (bool, error) {
		want, _, err := from.Get(source)
		if err != nil || want == "" {
			return false, err
		}
		return true, Set(into, target, want)
	}}
}

// textsInPlace are the entries of a map of texts that the source has, or gave: each is a field with its own name, so that the entries of
// others stay.
func textsInPlace(prefix string, from, into Field[map[string]string], source map[string]any, given []string) ([]inPlace, error) {
	said, _, err := from.Get(source)
	if err != nil || from.path.IsZero() || into.path.IsZero() {
		return nil, err
	}
	keys := slices.Collect(maps.Keys(said))
	for _, name := range given {
		if key, ours := strings.CutPrefix(name, prefix); ours {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var fields []inPlace
	for _, key := range slices.Compact(keys) {
		into := Field[string]{path: NewPath(append(into.path.Segments(), key)...)}
		fields = append(fields, inPlace{prefix + key, from.path, into.path, func(_, target map[string]any) (bool, error) {
			text, found := said[key]
			if !found {
				return false, nil
			}
			return true, Set(into, target, text)
		}})
	}
	return fields, nil
}

// syncFields brings field after field to the target, but those that a machine is made of, and removes those that were given and about
// which the source has come to be silent. It returns the names of what the source says.
func syncFields(fields []inPlace, madeOf []Path, source, target map[string]any, given []string) (now []string, err error) {
	for _, field := range fields {
		if field.into.IsZero() || covers(madeOf, field.from) {
			continue
		}
		said, err := field.sync(source, target)
		switch {
		case err != nil:
			return nil, err
		case said:
			now = append(now, field.name)
		case slices.Contains(given, field.name):
			if err := field.into.clear(target); err != nil {
				return nil, err
			}
		}
	}
	return now, nil
}

// copyContent makes what is at one place of a target what is at one of a source, which it shares nothing with.
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
