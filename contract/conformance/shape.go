package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Types of an OpenAPI schema.
const (
	typeString  = "string"
	typeBoolean = "boolean"
	typeInteger = "integer"
	typeObject  = "object"
	typeArray   = "array"
)

// shape is what the contract's type of a value looks like in a schema.
type shape struct {
	name    string // for people: "list of strings"
	typed   string
	members []member
	item    *shape
	values  *shape   // of a map
	texts   []string // the only texts that readers know; nil when they take any
}

// member is a member of an object.
type member struct {
	key   string
	shape shape
	// needed members must be in the schema, because readers fail without them.
	needed bool
	// required members should be required by the schema, because readers refuse an object without them.
	required bool
}

func listOf(name string, item shape) shape { return shape{name: name, typed: typeArray, item: &item} }

// addressesShape has the accepted types of the rule "InfraMachine: addresses".
func addressesShape() shape {
	kind := shape{name: typeString, typed: typeString}
	kind.texts = addressTypes()
	return listOf("list of addresses", shape{name: typeObject, typed: typeObject, members: []member{
		{key: "type", shape: kind, needed: true},
		{key: "address", shape: shape{name: typeString, typed: typeString}, needed: true},
	}})
}

func addressTypes() []string {
	return []string{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}
}

// instancesShape has what readers of status.instances know; providers have more.
func instancesShape() shape {
	text := shape{name: typeString, typed: typeString}
	return listOf("list of instances", shape{name: typeObject, typed: typeObject, members: []member{
		{key: "instanceName", shape: text},
		{key: "providerID", shape: text},
		{key: "version", shape: text},
		{key: "ready", shape: shape{name: typeBoolean, typed: typeBoolean}},
		{key: "addresses", shape: addressesShape()},
	}})
}

// conditionsShape fits both shapes of conditions: only one has an observed generation.
func conditionsShape() shape {
	status := shape{name: typeString, typed: typeString}
	status.texts = []string{"True", "False", "Unknown"}
	text := shape{name: typeString, typed: typeString}
	return listOf("list of conditions", shape{name: typeObject, typed: typeObject, members: []member{
		{key: "type", shape: text, needed: true, required: true},
		{key: "status", shape: status, needed: true, required: true},
		{key: "reason", shape: text},
		{key: "message", shape: text},
		{key: "lastTransitionTime", shape: text},
		{key: "observedGeneration", shape: shape{name: typeInteger, typed: typeInteger}},
	}})
}

// mismatch is a place below a value where a schema and a shape differ.
type mismatch struct {
	level       Level
	at          string
	found, want string
	why         string
}

// compareTo lists where the schema of a value differs from the shape that readers expect. It goes no deeper than the shape.
func (s shape) compareTo(n node, at string, everywhere bool) []mismatch {
	switch name := n.typeName(); {
	case name == "", s.typed == "":
		return nil // values of every type are kept, or read
	case name != s.typed:
		return []mismatch{{level: Must, at: at, found: name, want: s.name, why: "a value of another type cannot be read"}}
	}
	differ := s.compareEnum(n, at)
	if inner := n.items(); s.item != nil && inner != nil {
		differ = append(differ, s.item.compareTo(inner, at+"[]", everywhere)...)
	}
	for _, m := range s.members {
		differ = append(differ, m.compareTo(n, at, everywhere)...)
	}
	if s.values != nil {
		differ = append(differ, s.compareValues(n, at, everywhere)...)
	}
	return differ
}

// compareValues looks at what a map may hold, under a key that no schema names.
func (s shape) compareValues(n node, at string, everywhere bool) []mismatch {
	inner, what := n.child("\x00", everywhere)
	switch what {
	case known:
		return s.values.compareTo(inner, at+"[]", everywhere)
	case pruned:
		return []mismatch{{level: Should, at: at, found: "an object without entries", want: s.name,
			why: "the API server drops what the schema does not know"}}
	case anything:
		return nil
	default:
		return nil
	}
}

func (m member) compareTo(n node, at string, everywhere bool) []mismatch {
	inner, what := n.child(m.key, everywhere)
	if what == pruned && m.needed {
		return []mismatch{{level: Must, at: at + "." + m.key, found: nothing, want: m.shape.name,
			why: "entries without it are refused by their readers, and the API server drops what the schema does not know"}}
	}
	if what != known {
		return nil
	}
	differ := m.shape.compareTo(inner, at+"."+m.key, everywhere)
	if m.required && !n.requires(m.key) {
		differ = append(differ, mismatch{level: Should, at: at + "." + m.key, found: "an optional member", want: "a required member",
			why: "readers refuse entries without it, which the API server could have done first"})
	}
	return differ
}

// compareEnum reports texts that the schema allows although readers refuse them.
func (s shape) compareEnum(n node, at string) []mismatch {
	if s.texts == nil {
		return nil
	}
	var refused []string
	for _, text := range n.enum() {
		if !slices.Contains(s.texts, text) {
			refused = append(refused, text)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	slices.Sort(refused)
	return []mismatch{{level: Must, at: at, found: fmt.Sprintf("an enum that allows %q", clip(strings.Join(refused, ", "))),
		want: "one of " + strings.Join(s.texts, ", "), why: "readers refuse other texts"}}
}

// nothing is Finding.Found of a place that is missing.
const nothing = "nothing"
