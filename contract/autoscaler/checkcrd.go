package autoscaler

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// Rules about CRDs.
const (
	ruleScale  = "the autoscaler reads the size from the scale subresource and patches it there"
	ruleSchema = "the API server prunes what the schema does not have, and the autoscaler reads it"
)

// CheckCRD reports where the CustomResourceDefinition of a MachineSet, MachineDeployment, MachinePool or Machine does not let the
// autoscaler work: group, kind and plural, the scale subresource of every served version, and the fields that it reads. The CRD
// is taken as it is in YAML; it is neither changed nor kept. Findings come in a fixed order.
func CheckCRD(k Keys, crd *unstructured.Unstructured) []conformance.Finding {
	c := crdChecker{keys: k.orDefault()}
	if crd == nil || crd.GetKind() != "CustomResourceDefinition" {
		c.must("kind", nothing, "CustomResourceDefinition", "only CRDs are checked here")
		return c.sorted()
	}
	kind := c.names(crd.Object)
	fields := fieldsOf(kind)
	if len(fields) == 0 {
		return c.sorted()
	}
	versions, _, err := read[[]any](crd.Object, "list", "spec", "versions")
	c.errors(conformance.Must, "", err, ruleSchema)
	served := 0
	for _, raw := range versions {
		version, ok := raw.(map[string]any)
		if on, _, err := read[bool](version, "bool", "served"); !ok || err != nil || !on {
			continue
		}
		served++
		name, _, _ := read[string](version, "string", "name") // a version without a name is shown so
		where := "spec.versions[" + name + "]"
		if kind != kindMachine {
			c.scale(where, kind, version)
		}
		c.schema(where+": ", version, fields)
	}
	if err == nil && served == 0 {
		c.must("spec.versions", "no served version", "one", ruleIdentity)
	}
	return c.sorted()
}

type crdChecker struct {
	report
	keys Keys
}

// names checks how discovery shows the kind, and returns it.
func (c *crdChecker) names(crd map[string]any) string {
	kind, err := c.text(crd, "spec", "names", "kind")
	if err == nil && len(fieldsOf(kind)) == 0 {
		c.must("spec.names.kind", quoted(kind), kindsWanted+", or Machine", ruleIdentity)
		return kind
	}
	wanted := []struct{ want, key, parent string }{
		{want: c.keys.Group, key: "group"},
		{want: "Namespaced", key: "scope"},
		{want: strings.ToLower(kind) + "s", parent: "names", key: "plural"},
	}
	for _, w := range wanted {
		segments := []string{"spec", w.parent, w.key}
		if w.parent == "" {
			segments = []string{"spec", w.key}
		}
		if found, err := c.text(crd, segments...); err == nil && found != w.want {
			c.must(strings.Join(segments, "."), quoted(found), quoted(w.want), ruleIdentity)
		}
	}
	return kind
}

// text reads a text, and reports one that cannot be read.
func (c *crdChecker) text(obj map[string]any, segments ...string) (string, error) {
	value, _, err := read[string](obj, "string", segments...)
	c.errors(conformance.Must, "", err, ruleIdentity)
	return value, err
}

// scale checks the scale subresource of one version. The autoscaler does not read the selector, but others that scale do;
// pools have none in Cluster API either.
func (c *crdChecker) scale(where, kind string, version map[string]any) {
	scale, found, err := read[map[string]any](version, "object", "subresources", "scale")
	if err != nil || !found {
		c.must(where+".subresources.scale", nothing, "specReplicasPath .spec.replicas and statusReplicasPath .status.replicas", ruleScale)
		return
	}
	paths := map[string]string{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
	for key, want := range paths {
		if scale[key] != want {
			c.must(where+".subresources.scale."+key, shown(scale[key]), want, ruleScale)
		}
	}
	if selector := shown(scale["labelSelectorPath"]); selector == nothing && kind != kindMachinePool {
		c.should(where+".subresources.scale.labelSelectorPath", selector, "the path of a text, as .status.selector",
			"others that scale find the Machines by it, as the HorizontalPodAutoscaler does")
	}
}

// shown shows a text, or what stands in its place.
func shown(value any) string {
	text, ok := value.(string)
	switch {
	case value == nil || ok && text == "":
		return nothing
	case ok:
		return quoted(text)
	default:
		return contract.TypeName(value)
	}
}

// schemaField is a place that the autoscaler reads.
type schemaField struct {
	path, kind string
	level      conformance.Level
}

// fieldsOf returns what the autoscaler reads of a kind; nothing for a kind that it does not know.
func fieldsOf(kind string) []schemaField {
	const must, should = conformance.Must, conformance.Should
	scalable := []schemaField{
		{"spec.replicas", "integer", must}, {"status.replicas", "integer", must}, {"spec.clusterName", "string", should},
		{"spec.template.spec.infrastructureRef.kind", "string", should},
		{"spec.template.spec.infrastructureRef.name", "string", should},
	}
	switch kind {
	case kindMachineSet, kindMachineDeployment:
		return append(scalable, schemaField{"spec.selector", "object", must})
	case kindMachinePool:
		return append(scalable, schemaField{"spec.providerIDList", "array", must})
	case kindMachine:
		return []schemaField{{"spec.providerID", "string", must}, {"status.nodeRef", "object", must}, {"spec.clusterName", "string", should}}
	default:
		return nil
	}
}

func (c *crdChecker) schema(where string, version map[string]any, fields []schemaField) {
	root, _, err := read[map[string]any](version, "object", "schema", "openAPIV3Schema")
	c.errors(conformance.Must, where, err, ruleSchema)
	if err != nil {
		return
	}
	for _, field := range fields {
		if found := schemaType(root, strings.Split(field.path, ".")); found != field.kind && found != anything {
			c.add(field.level, where+field.path, found, field.kind, ruleSchema)
		}
	}
}

// anything is the type of a place about which the schema says nothing, but which is not pruned.
const anything = "anything"

// schemaType returns the type that a schema gives to a place.
func schemaType(node map[string]any, segments []string) string {
	for _, key := range segments {
		next, found, err := read[map[string]any](node, "object", "properties", key)
		if err == nil && found {
			node = next
			continue
		}
		if preserve, _, err := read[bool](node, "bool", "x-kubernetes-preserve-unknown-fields"); err == nil && preserve {
			return anything
		}
		return nothing
	}
	kind, found, err := read[string](node, "string", "type")
	if err != nil || !found {
		return anything
	}
	return kind
}
