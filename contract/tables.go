package contract

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrUnknownVersion matches the error of reading through the nil layout of a contract version that is not supported.
var ErrUnknownVersion = errors.New("unknown contract version")

// tables holds the layout of one role for every contract version.
type tables[L any] map[Version]*L

// tablesOf makes the tables of a role. Before v1beta2 all contract versions have the same places, and differ in what
// controllers do with them.
func tablesOf[L any](before, since func(Version) L) tables[L] {
	all := tables[L]{V1Beta2: new(since(V1Beta2))}
	for _, v := range []Version{V1Alpha3, V1Alpha4, V1Beta1} {
		all[v] = new(before(v))
	}
	return all
}

// unknownVersion is the error of reading through a nil layout.
func unknownVersion(obj *unstructured.Unstructured) error {
	return fmt.Errorf("%s: %w", describe(obj), ErrUnknownVersion)
}

// breaks says whose contract an object breaks, nil when err is.
func breaks(obj *unstructured.Unstructured, v Version, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s breaks contract %s: %w", describe(obj), v, err)
}

// maxName is how long the name of an object, or of a namespace, may be.
const maxName = 253

// describe names an object as a person would look for it: "AWSMachine default/worker-1". It does not ask unstructured's own
// accessors for more than the kind, because they print what stands in the place of the metadata to throw it away.
func describe(obj *unstructured.Unstructured) string {
	namespace, _, _ := metaNamespace.Get(obj.Object)
	name, _, _ := metaName.Get(obj.Object)
	kind, name := clipped(obj.GetKind()), clipped(name)
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + clipped(namespace) + "/" + name
}

// clipped keeps errors short whatever an object calls itself.
func clipped(text string) string {
	if len(text) <= maxName {
		return text
	}
	return strings.ToValidUTF8(text[:maxName], "")
}
