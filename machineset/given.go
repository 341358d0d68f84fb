package machineset

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/machinist-dev/machinist/contract"
)

// GivenAnnotation of a Machine records what its set gave it, so that a value that the set's template no longer has is removed, and values
// of other writers stay. It holds JSON with the labels, the keys of the annotations, and the names of other fields.
const GivenAnnotation = "machinist.dev/from-set"

// given is what a set gave a Machine.
type given struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations []string          `json:"annotations,omitempty"`
	Fields      []string          `json:"fields,omitempty"`
}

// readGiven reads a record; without a readable one nothing is known, and nothing is removed.
func readGiven(m *contract.MachineState) (given, bool) {
	text, found := m.Annotations[GivenAnnotation]
	if !found {
		return given{}, false
	}
	var g given
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return given{}, false
	}
	return g, true
}

func givenLabels(m *contract.MachineState) (map[string]string, bool) {
	g, known := readGiven(m)
	return g.Labels, known && g.Labels != nil
}

// text returns the record. Equal records give equal texts.
func (g given) text() string {
	text, err := json.Marshal(g)
	if err != nil {
		return "" // texts always have a text
	}
	return string(text)
}

// giving returns the record of what a set gives to its Machines, with its lists sorted.
func giving(set *contract.MachineSetState, fields []string) given {
	return given{
		Labels: machineLabels(set), Annotations: slices.Sorted(maps.Keys(set.Template.Annotations)), Fields: slices.Sorted(slices.Values(fields)),
	}
}

// metadataOf is what to change in the labels and annotations of a Machine, or of what it refers to: what the set says now is put
// there, and what it said before and says no longer is removed.
func metadataOf(have contract.Metadata, before given, set *contract.MachineSetState) contract.MetadataUpdate {
	var u contract.MetadataUpdate
	change := func(into *map[string]contract.Change[string], key string, to contract.Change[string]) {
		if *into == nil {
			*into = map[string]contract.Change[string]{}
		}
		(*into)[key] = to
	}
	sync := func(into *map[string]contract.Change[string], have, want map[string]string, gave []string) {
		for key, value := range want {
			if got, found := have[key]; !found || got != value {
				change(into, key, contract.SetTo(value))
			}
		}
		for _, key := range gave {
			_, wanted := want[key]
			if _, found := have[key]; found && !wanted {
				change(into, key, contract.Cleared[string]())
			}
		}
	}
	sync(&u.Labels, have.Labels, machineLabels(set), slices.Collect(maps.Keys(before.Labels)))
	sync(&u.Annotations, have.Annotations, set.Template.Annotations, before.Annotations)
	return u
}

func changesNothing(u contract.MetadataUpdate) bool {
	return u.Finalizers.Keeps() && u.OwnerReferences.Keeps() && len(u.Labels) == 0 && len(u.Annotations) == 0
}
