package conformance

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// node is a node of a structural OpenAPI schema, in the JSON of a CRD. Every key may hold anything.
type node map[string]any

// kept says what becomes of a value at a place.
type kept uint8

const (
	// pruned values are dropped by the API server.
	pruned kept = iota
	// known values have a schema.
	known
	// anything is kept as it is, without a schema.
	anything
)

// child returns the schema of a member and what becomes of a value there.
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
		return clip(name)
	case n["properties"] != nil || n["additionalProperties"] != nil:
		return typeObject
	case n["items"] != nil:
		return typeArray
	default:
		return ""
	}
}

// walk goes to a place. With pruned, holder is the type that stands in the way, "" when a part of the way is just missing.
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

// apiVersion is a version of a CRD.
type apiVersion struct {
	name      string
	served    bool
	hasStatus bool // the status subresource
	schema    node
}

// keeps reports whether the API server keeps a value at a place.
func (v apiVersion) keeps(place contract.Path) bool {
	_, what, holder := v.schema.walk(place.Segments())
	return what != pruned && holder == ""
}

// maxVersions bounds what a CRD can make us do; real ones have up to six.
const maxVersions = 50

// versionsOf returns the versions of a CRD in its order; entries without a name are left out.
func versionsOf(crd map[string]any) []apiVersion {
	entries, _, _ := unstructured.NestedFieldNoCopy(crd, "spec", "versions")
	list, _ := entries.([]any)
	var versions []apiVersion
	for _, entry := range list[:min(len(list), maxVersions)] {
		fields, _ := entry.(map[string]any)
		name, _ := fields["name"].(string)
		if name == "" {
			continue
		}
		v := apiVersion{name: name, served: fields["served"] == true}
		if raw, _, err := unstructured.NestedFieldNoCopy(fields, "schema", "openAPIV3Schema"); err == nil {
			v.schema, _ = raw.(map[string]any)
		}
		if status, found, err := unstructured.NestedFieldNoCopy(fields, "subresources", "status"); err == nil {
			v.hasStatus = found && status != nil
		}
		versions = append(versions, v)
	}
	return versions
}

// clip keeps a text from another component from filling a report.
func clip(text string) string {
	const most = 60
	if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most || len(text) > 4*most {
		return string(runes[:min(len(runes), most)]) + "..."
	}
	return text
}
