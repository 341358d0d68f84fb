package main

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract/autoscaler"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// What -autoscaler judges CRDs and objects as.
const (
	asScalable = "what cluster-autoscaler scales"
	asMember   = "a Machine that cluster-autoscaler reads"
)

// scaling judges the kinds of one API group by what cluster-autoscaler reads of them. The zero scaling judges none.
type scaling struct {
	keys      autoscaler.Keys
	documents []document
}

func newScaling(group string, documents []document) scaling {
	if group == "" {
		return scaling{}
	}
	return scaling{keys: autoscaler.KeysFor(group), documents: documents}
}

// reads returns what a kind is to the autoscaler, empty when it is nothing.
func (s scaling) reads(gk schema.GroupKind) string {
	switch {
	case s.keys.Group == "" || gk.Group != s.keys.Group:
		return ""
	case gk.Kind == "Machine":
		return asMember
	case slices.Contains([]string{"MachineSet", "MachineDeployment", "MachinePool"}, gk.Kind):
		return asScalable
	default:
		return ""
	}
}

// judge returns the result of checking a CRD or an object, and false when the autoscaler does not read its kind. A Machine is
// not judged by itself: what is wrong with it is a finding about its group.
func (s scaling) judge(d document) (checked, bool) {
	gk := d.GroupVersionKind().GroupKind()
	if d.isCRD() {
		gk = definedBy(d)
	}
	as := s.reads(gk)
	if as == "" {
		return checked{}, false
	}
	c := checked{Name: d.GetName(), Source: d.source(), As: as}
	if d.isCRD() {
		c.Findings = autoscaler.CheckCRD(s.keys, d.Unstructured)
	} else {
		around := s.around(d)
		c.Name, c.Findings = nameOf(d), autoscaler.Check(s.keys, d.Unstructured, around)
		c.Passed = s.known(d, around)
	}
	c.Judged, c.Passed = []conformance.Judged{}, append([]conformance.Pass{}, c.Passed...) // lists for those who read JSON
	c.Findings = append([]conformance.Finding{}, c.Findings...)
	return c, true
}

// known returns what the autoscaler makes of a group: whether it scales it, what it thinks that a new Node offers, and whether
// it leaves Nodes alone because of a rollout.
func (s scaling) known(group document, around autoscaler.Around) []conformance.Pass {
	standing, err := autoscaler.StandingOf(s.keys, group.Unstructured, around.Template)
	if err != nil {
		return nil // a finding says why
	}
	known := []conformance.Pass{{Path: "standing", Fact: standing.String()}}
	if node, _ := autoscaler.CapacityOf(group.Unstructured, around.Template); node.ScalesFromZero() {
		known = append(known, conformance.Pass{Path: "a new Node", Fact: resourcesText(node.Resources)})
	}
	if rolling, err := autoscaler.RollingOut(group.Unstructured, around.MachineSets); err == nil && rolling {
		known = append(known, conformance.Pass{Path: "Nodes", Fact: "none is removed during the rollout"})
	}
	return known
}

// resourcesText lists resources by name: "cpu 4, memory 16Gi".
func resourcesText(resources corev1.ResourceList) string {
	texts := make([]string, 0, len(resources))
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		quantity := resources[name]
		texts = append(texts, string(name)+" "+quantity.String())
	}
	return strings.Join(texts, ", ")
}

// around returns what the input has of a group's MachineSets, its Machines and its infrastructure template. A kind of which
// the input has no object was not looked at.
func (s scaling) around(group document) autoscaler.Around {
	var around autoscaler.Around
	for _, d := range s.documents {
		gk := d.GroupVersionKind().GroupKind()
		switch {
		case d.GetNamespace() != group.GetNamespace():
		case gk == schema.GroupKind{Group: s.keys.Group, Kind: "Machine"}:
			around.Machines = append(around.Machines, d.Unstructured)
		case gk == schema.GroupKind{Group: s.keys.Group, Kind: "MachineSet"}:
			around.MachineSets = append(around.MachineSets, d.Unstructured)
		case isTemplateOf(group, d):
			around.Template = d.Unstructured
		}
	}
	return around
}

// isTemplateOf reports whether a document is the infrastructure template that a group refers to.
func isTemplateOf(group, d document) bool {
	ref, _, _ := unstructured.NestedMap(group.Object, "spec", "template", "spec", "infrastructureRef")
	return ref["kind"] == d.GetKind() && ref["name"] == d.GetName() && d.GetKind() != ""
}
