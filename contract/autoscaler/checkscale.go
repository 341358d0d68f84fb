package autoscaler

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// Rules about groups without Nodes.
const (
	ruleFromZero  = "without Nodes the autoscaler knows from it what a new one offers, and hides a group of 0 replicas when it does not"
	ruleReference = "the autoscaler reads the infrastructure template through it: an object of texts, in the group's namespace"
	ruleTemplate  = "the autoscaler plans new Nodes with it, and passes over what it cannot read"
)

// fromZero checks what the autoscaler knows about a Node that does not exist yet.
func (c *checker) fromZero() {
	annotations, problems := parseCapacity(c.group.GetAnnotations())
	unreadable := false
	for _, p := range problems {
		level := conformance.Should
		if p.Effect == noCapacity {
			level, unreadable = c.zeroLevel(), true
		}
		c.annotation(level, p)
	}
	_, err := specCapacity(c.group)
	c.errors(conformance.Should, "", err, ruleTemplate)

	known := annotations
	refers := c.reference(annotations.ScalesFromZero())
	if c.around.Template != nil {
		fromTemplate, err := TemplateCapacity(c.around.Template)
		c.errors(conformance.Should, of(c.around.Template), err, ruleTemplate)
		known = annotations.Over(fromTemplate)
		c.template(fromTemplate, known)
	}
	if !unreadable && c.sizes.Scaled() {
		c.missing(known, refers && c.around.Template == nil)
	}
}

// missing reports cpu and memory when they are not known. It matters for a group that has no Node to look at, or may lose its
// last one; open says that the template may know them.
func (c *checker) missing(known Capacity, open bool) {
	if !c.atZero && (!c.mayEmpty || open) {
		return
	}
	level, found := c.zeroLevel(), nothing
	if open {
		level, found = conformance.Should, "nothing, and the infrastructure template was not looked at"
	}
	for key, name := range map[string]corev1.ResourceName{CPUAnnotation: corev1.ResourceCPU, MemoryAnnotation: corev1.ResourceMemory} {
		if slices.Contains(known.missing(), name.String()) {
			c.add(level, annotationPath(key), found, "a quantity, here or in status.capacity."+name.String()+
				" of the infrastructure template", ruleFromZero)
		}
	}
}

// zeroLevel is a MUST for a group that is hidden now, and a SHOULD for one that could once be.
func (c *checker) zeroLevel() conformance.Level {
	if c.atZero {
		return c.breaking()
	}
	return conformance.Should
}

// reference checks spec.template.spec.infrastructureRef, which may be missing when annotations say enough. It reports whether
// the autoscaler can follow it.
func (c *checker) reference(enough bool) bool {
	at := contract.NewPath("spec", "template", "spec", "infrastructureRef")
	level := conformance.Should
	if !enough {
		level = c.zeroLevel()
	}
	ref, err := readTexts(c.group.Object, at.Segments()...)
	c.errors(level, "", err, ruleReference)
	if err != nil || ref == nil {
		return false
	}
	usable := true
	for _, key := range []string{"kind", "name"} {
		if ref[key] == "" {
			usable = false
			c.add(level, at.String()+"."+key, nothing, "a text", ruleReference)
		}
	}
	if apiGroup, found := ref["apiGroup"]; found && apiGroup == "" || !found && ref["apiVersion"] == "" {
		usable = false
		c.add(level, at.String()+".apiGroup", nothing, "the API group, or apiVersion instead of it", ruleReference)
	}
	c.referencePlace(at, ref)
	return usable
}

// referencePlace checks where the autoscaler will look for the template.
func (c *checker) referencePlace(at contract.Path, ref map[string]string) {
	if namespace := ref["namespace"]; namespace != "" && namespace != c.group.GetNamespace() {
		c.should(at.String()+".namespace", quoted(namespace), quoted(c.group.GetNamespace()), ruleReference)
	}
	plural, _, _ := strings.Cut(contract.CRDName(schema.GroupKind{Kind: ref["kind"]}), ".")
	if ref["kind"] != "" && plural != strings.ToLower(ref["kind"])+"s" {
		c.should(at.String()+".kind", quoted(ref["kind"]), "a kind whose plural is made by an s",
			"the autoscaler asks for the resource "+strings.ToLower(ref["kind"])+"s")
	}
}

// template checks what the infrastructure template adds.
func (c *checker) template(fromTemplate, known Capacity) {
	where := of(c.around.Template)
	if _, found := c.group.GetAnnotations()[MaxPodsAnnotation]; !found {
		if pods, said := fromTemplate.Resources[corev1.ResourcePods]; said && pods.CmpInt64(DefaultMaxPods) != 0 {
			c.should(where+"status.capacity.pods", pods.String(), "the number in annotation "+MaxPodsAnnotation+" of the group",
				"the autoscaler reads pods from the annotation only, and takes 110 without it")
		}
	}
	if !known.ScalesFromZero() {
		return
	}
	labels := map[string]string{corev1.LabelArchStable: known.Architecture, corev1.LabelOSStable: known.OperatingSystem}
	fields := map[string]string{corev1.LabelArchStable: "architecture", corev1.LabelOSStable: "operatingSystem"}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if _, said := known.Labels[label]; !said && labels[label] == "" {
			c.should(where+"status.nodeInfo."+fields[label], nothing, "a value, here or as label "+label+" in annotation "+LabelsAnnotation,
				"the autoscaler plans with an empty label once it has read the template, and pods that select by it do not fit")
		}
	}
}
