package contract

import (
	"encoding/json"
	"slices"
)

// TemplateLayout says where a template of any role keeps what an object is cloned from. Rule: the sections "...Template resource
// definition" of the contract pages; they have been the same in every version. The tags are those of MachineLayout and say what the
// contract demands.
type TemplateLayout struct {
	// Labels and Annotations are put on every clone.
	Labels      Field[map[string]string] `by:"user" need:"MAY" absent:"none"`
	Annotations Field[map[string]string] `by:"user" need:"MAY" absent:"none"`
	// Spec is the spec of every clone.
	Spec Field[json.RawMessage] `by:"user" need:"MUST" absent:"clones have no spec"`
}

var templateTable = TemplateLayout{
	Labels:      At[map[string]string]("spec", "template", "metadata", "labels"),
	Annotations: At[map[string]string]("spec", "template", "metadata", "annotations"),
	Spec:        At[json.RawMessage]("spec", "template", "spec"),
}

// Template returns the layout of a contract version, nil for one that is not supported. The table is shared and must not be changed.
func Template(v Version) *TemplateLayout {
	if !slices.Contains(AllVersions(), v) {
		return nil
	}
	return &templateTable
}
