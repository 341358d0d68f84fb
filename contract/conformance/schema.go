package conformance

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// node is a node of a structural OpenAPI schema as JSON. Every key may have a value of any type.
type node map[string]any

// kept is how the API server treats a value.
type kept uint8

const (
	// pruned values are dropped.
	pruned kept = iota
	// known values have a schema.
	known
	// anything is stored unchanged, without a schema.
	anything
)

// child returns the schema of a member and how the API server treats its value.
func (n node) child(key string) (node, kept) {
	if properties, ok := n["properties"].(map[string]any); ok {
		if inner, ok := properties[key].(map[string]any); ok {
			return inner, known
		}
	}
	switch additional := n["additionalProperties"].(type) {
	case map[string]any:
		return additional, known
	case bool:
		if additional {
			return nil, anything
		}
	}
	embedded := n["x-kubernetes-embedded-resource"] == true && slices.Contains([]string{"apiVersion", "kind", "metadata"}, key)
	if n["x-kubernetes-preserve-unknown-fields"] == true || embedded {
		return nil, anything
	}
	return nil, pruned
}

// typeName returns the type that the schema allows, "" when it allows every type.
func (n node) typeName() string {
	name, _ := n["type"].(string)
	switch {
	case n["x-kubernetes-int-or-string"] == true:
		return "integer or string"
	case name != "":
		return name
	case n["properties"] != nil || n["additionalProperties"] != nil:
		return typeObject
	case n["items"] != nil:
		return typeArray
	default:
		return ""
	}
}

// walk returns the schema at a path. With pruned, holder is the conflicting type of a parent, "" when a parent is missing.
func (n node) walk(segments []string) (found node, what kept, holder string) {
	for _, key := range segments {
		if name := n.typeName(); name != typeObject && name != "" {
			return nil, pruned, name
		}
		inner, what := n.child(key)
		if what != known {
			return nil, what, ""
		}
		n = inner
	}
	return n, known, ""
}

type apiVersion struct {
	name      string
	served    bool
	hasStatus bool // has the status subresource
	schema    node
}

// keeps reports whether the API server stores a value at a path.
func (v apiVersion) keeps(place contract.Path) bool {
	_, what, holder := v.schema.walk(place.Segments())
	return what != pruned && holder == ""
}

// versionsOf returns the versions of a CRD in its order; entries without a name are ignored.
func versionsOf(crd map[string]any) []apiVersion {
	entries, _, _ := unstructured.NestedFieldNoCopy(crd, "spec", "versions")
	list, _ := entries.([]any)
	var versions []apiVersion
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		name, _ := fields["name"].(string)
		if name == "" {
			continue
		}
		v := apiVersion{name: name, served: fields["served"] == true}
		schema, _, _ := unstructured.NestedFieldNoCopy(fields, "schema", "openAPIV3Schema")
		v.schema, _ = schema.(map[string]any)
		status, _, _ := unstructured.NestedFieldNoCopy(fields, "subresources", "status")
		v.hasStatus = status != nil
		versions = append(versions, v)
	}
	return versions
}

const (
	typeString  = "string"
	typeBoolean = "boolean"
	typeInteger = "integer"
	typeObject  = "object"
	typeArray   = "array"
)

// shape is the schema that the contract requires for a value.
type shape struct {
	name    string // for people: "list of strings"
	typed   string
	members []member
	item    *shape
	values  *shape   // of a map
	texts   []string // the texts that readers accept; nil for any text
}

type member struct {
	key   string
	shape shape
	// needed members must be in the schema, because readers fail without them.
	needed bool
}

func scalar(typed string) shape { return shape{name: typed, typed: typed} }

func listOf(name string, item shape) shape { return shape{name: name, typed: typeArray, item: &item} }

func objects(name string, members ...member) shape {
	return listOf("list of "+name, shape{name: typeObject, typed: typeObject, members: members})
}

// words returns the shape of a text for which readers accept only some values.
func words(known []string) shape { return shape{name: typeString, typed: typeString, texts: known} }

// addressesShape returns the accepted types of the rule "InfraMachine: addresses".
func addressesShape() shape {
	return objects("addresses", member{key: "type", shape: words(addressTypes()), needed: true},
		member{key: "address", shape: scalar(typeString), needed: true})
}

func addressTypes() []string {
	return []string{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}
}

// conditionsShape accepts both shapes of conditions: only one has an observed generation.
func conditionsShape() shape {
	text := scalar(typeString)
	return objects("conditions", member{key: "type", shape: text, needed: true},
		member{key: "status", shape: words([]string{"True", "False", "Unknown"}), needed: true},
		member{key: "reason", shape: text}, member{key: "message", shape: text}, member{key: "lastTransitionTime", shape: text},
		member{key: "observedGeneration", shape: scalar(typeInteger)})
}

// compareTo lists the differences between the schema of a value and the shape that readers expect, to the depth of the shape.
func (s shape) compareTo(n node, at string) []Finding {
	switch name := n.typeName(); {
	case name == "", s.typed == "":
		return nil // any type is stored, or read
	case name != s.typed:
		return []Finding{{Level: Must, Path: at, Found: name, Want: s.name, Rule: "a value of another type cannot be read"}}
	}
	differ := s.compareEnum(n, at)
	if inner, ok := n["items"].(map[string]any); s.item != nil && ok {
		differ = append(differ, s.item.compareTo(inner, at+"[]")...)
	}
	for _, m := range s.members {
		differ = append(differ, m.compareTo(n, at)...)
	}
	if s.values != nil {
		differ = append(differ, s.compareValues(n, at)...)
	}
	return differ
}

// compareValues checks the values of a map, with a key that no schema names.
func (s shape) compareValues(n node, at string) []Finding {
	inner, what := n.child("\x00")
	if what == pruned {
		return []Finding{{Level: Should, Path: at, Found: "an object without entries", Want: s.name,
			Rule: "the API server drops what the schema lacks"}}
	}
	return s.values.compareTo(inner, at+"[]") // a missing schema has no differences
}

func (m member) compareTo(n node, at string) []Finding {
	inner, what := n.child(m.key)
	if what == pruned && m.needed {
		return []Finding{{Level: Must, Path: at + "." + m.key, Found: nothing, Want: m.shape.name,
			Rule: "entries without it are refused by their readers, and the API server drops what the schema lacks"}}
	}
	if what != known {
		return nil
	}
	return m.shape.compareTo(inner, at+"."+m.key)
}

// compareEnum reports texts that the schema allows but readers reject.
func (s shape) compareEnum(n node, at string) []Finding {
	if s.texts == nil {
		return nil
	}
	var refused []string
	allowed, _ := n["enum"].([]any)
	for _, value := range allowed {
		if text, ok := value.(string); ok && !slices.Contains(s.texts, text) {
			refused = append(refused, text)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	slices.Sort(refused)
	return []Finding{{Level: Must, Path: at, Found: fmt.Sprintf("an enum that allows %q", strings.Join(refused, ", ")),
		Want: "one of " + strings.Join(s.texts, ", "), Rule: "readers refuse other texts"}}
}

// nothing is Finding.Found of a missing value.
const nothing = "nothing"
