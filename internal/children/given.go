package children

import (
	"encoding/json"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// GivenAnnotation of a child records the values that its owner gave it, as a Given in JSON, so that a value that the owner's template no
// longer has is removed, and values of other writers are retained.
const GivenAnnotation = "machinist.dev/given"

// Given is the record of the values that an owner gave a child.
type Given struct {
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are the keys of the annotations, and Fields the names of other fields, both sorted.
	Annotations []string `json:"annotations,omitempty"`
	Fields      []string `json:"fields,omitempty"`
}

// ReadGiven reads the record of a child. Without a valid record the result is empty, and nothing is removed.
func ReadGiven(child *contract.Metadata) Given {
	var g Given
	if json.Unmarshal([]byte(child.Annotations[GivenAnnotation]), &g) != nil {
		return Given{}
	}
	return g
}

// Text returns the record as text. Equal records give equal texts.
func (g Given) Text() string {
	text, _ := json.Marshal(g) // texts never fail
	return string(text)
}

// Of records on a child, before it is created, the values that the owner gives it, and returns the child for a client.
func (g Given) Of(made contract.Object) client.Object {
	annotations := map[string]string{}
	maps.Copy(annotations, made.GetAnnotations())
	annotations[GivenAnnotation] = g.Text()
	made.SetAnnotations(annotations)
	return made
}

// Changes returns the changes that add labels and annotations to an object, and remove values that were given before and are not wanted any
// more.
func (g Given) Changes(have *contract.Metadata, wantLabels, wantAnnotations map[string]string) contract.MetadataUpdate {
	return contract.MetadataUpdate{
		Labels:      changes(have.Labels, wantLabels, slices.Collect(maps.Keys(g.Labels))),
		Annotations: changes(have.Annotations, wantAnnotations, g.Annotations),
	}
}

func changes(have, want map[string]string, gave []string) map[string]contract.Change[string] {
	all := map[string]contract.Change[string]{}
	for key, value := range want {
		if got, found := have[key]; !found || got != value {
			all[key] = contract.SetTo(value)
		}
	}
	for _, key := range gave {
		_, wanted := want[key]
		if _, found := have[key]; found && !wanted {
			all[key] = contract.Cleared[string]()
		}
	}
	return all
}

// Also returns a kind whose adapter calls a function before it writes an update, so that the changes of a Maker are part of the same patch.
// The function may change the update.
func Also[S, U any](kind contract.KindOf[S, U], do func(obj contract.Object, u *U) error) contract.KindOf[S, U] {
	kind.Adapter = also[S, U]{kind.Adapter, do}
	return kind
}

type also[S, U any] struct {
	contract.Adapter[S, U]

	do func(contract.Object, *U) error
}

// Write implements contract.Adapter.
func (a also[S, U]) Write(obj contract.Object, u U) error {
	if err := a.do(obj, &u); err != nil {
		return err
	}
	return a.Adapter.Write(obj, u)
}

// Record adds the present record of a child to an update, unless it is stored already.
func (g Given) Record(child *contract.Metadata, u *contract.MetadataUpdate) {
	if text := g.Text(); child.Annotations[GivenAnnotation] != text {
		annotations := map[string]contract.Change[string]{GivenAnnotation: contract.SetTo(text)}
		maps.Copy(annotations, u.Annotations)
		u.Annotations = annotations
	}
}
