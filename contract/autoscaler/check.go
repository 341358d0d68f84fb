package autoscaler

import (
	"fmt"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// Around is what is known of the objects around a group. What is nil was not looked at, which is not the same as empty.
type Around struct {
	// Template is the infrastructure template that the group refers to.
	Template *unstructured.Unstructured
	// MachineSets are those of the group's namespace, or only the group's own. They matter for a MachineDeployment.
	MachineSets []*unstructured.Unstructured
	// Machines are all that one autoscaler sees, or those of the group's namespace. Whose they are is found out.
	Machines []*unstructured.Unstructured
	// Nodes are those of the workload cluster.
	Nodes []*corev1.Node
}

// Rules that more than one finding is about.
const (
	ruleWholeCluster = "the autoscaler stops for the whole cluster otherwise"
	ruleListing      = "the autoscaler lists a group's Machines by it, and stops for the whole cluster when it cannot"
	ruleIdentity     = "the autoscaler finds only objects of its API group, by fixed kinds and plurals"
)

// Check reports where a MachineSet, MachineDeployment or MachinePool does not meet what the autoscaler's clusterapi provider
// reads. MUST is what stops the autoscaler or breaks the group; SHOULD is what limits it. Without a maximum size above 0 an object
// is no group, and what would break one is a SHOULD. A MachineSet of a MachineDeployment is never a group either: it is checked
// for what the rollout guard reads.
//
// Findings come in a fixed order, and of many that are alike the first eleven, the last of them with the number of the others.
// Nothing is changed or kept.
func Check(k Keys, group *unstructured.Unstructured, around Around) []conformance.Finding {
	c := checker{keys: k.orDefault(), group: group, around: around}
	if group == nil || len(group.Object) == 0 {
		c.add(conformance.Must, "kind", nothing, kindsWanted, ruleIdentity)
		return c.sorted()
	}
	c.identity()
	c.texts()
	switch {
	case !scalableKind(group.GetKind()):
	case group.GetKind() == kindMachineSet && ownerName(group, kindMachineDeployment) != "":
		c.machineSet("", group, ownerName(group, kindMachineDeployment))
	default:
		c.bounds()
		c.mild = !c.sizes.Scaled()
		c.replicas()
		c.paused()
		c.cluster()
		c.fromZero()
		c.options()
		c.members()
	}
	return c.sorted()
}

const kindsWanted = "MachineSet, MachineDeployment or MachinePool"

func scalableKind(kind string) bool {
	return kind == kindMachineSet || kind == kindMachineDeployment || kind == kindMachinePool
}

// checker holds one group and what is known around it.
type checker struct {
	report
	keys   Keys
	group  *unstructured.Unstructured
	around Around

	sizes Bounds
	// atZero says that there are no replicas now, and mayEmpty that the autoscaler may take the last one away.
	atZero, mayEmpty bool
}

func (c *checker) identity() {
	if kind := c.group.GetKind(); !scalableKind(kind) {
		c.add(conformance.Must, "kind", quoted(kind), kindsWanted, ruleIdentity)
	}
	version, err := schema.ParseGroupVersion(c.group.GetAPIVersion())
	if err != nil || version.Group != c.keys.Group {
		c.add(conformance.Must, "apiVersion", quoted(c.group.GetAPIVersion()), "a version of group "+c.keys.Group, ruleIdentity)
	}
}

// texts looks for what makes all annotations, or all labels, look absent.
func (c *checker) texts() {
	for _, key := range []string{"annotations", "labels"} {
		_, err := readTexts(c.group.Object, "metadata", key)
		c.errors(conformance.Must, "", err, "the autoscaler takes all "+key+" for absent when one is no text")
	}
}

func (c *checker) bounds() {
	annotations := c.group.GetAnnotations()
	bounds, problem := c.keys.bounds(annotations)
	if problem != nil {
		c.annotation(conformance.Must, problem)
		// What is wrong with the sizes must not make everything else look harmless.
		c.sizes.Max = contract.Some(int64(math.MaxInt32))
		return
	}
	c.sizes = bounds
	c.mayEmpty = bounds.Scaled() && bounds.Min.Or(0) == 0
	minimum, maximum := annotationPath(c.keys.MinSize), annotationPath(c.keys.MaxSize)
	if !bounds.Scaled() {
		found := nothing
		if bounds.Max.Found() {
			found = quoted(annotations[c.keys.MaxSize])
		}
		c.should(maximum, found, "a whole number above 0", "the autoscaler skips objects without a maximum size")
	}
	if bounds.Max.Found() && !bounds.Min.Found() {
		c.should(minimum, nothing, "a minimum size beside the maximum",
			"the autoscaler takes 0, and Cluster API derives missing replicas from the two together only")
	}
	if bounds.Max.Or(0) > math.MaxInt32 {
		c.should(maximum, strconv.FormatInt(bounds.Max.Or(0), 10), "a number of at most 32 bits", "spec.replicas holds no more")
	}
}

func (c *checker) replicas() {
	path := replicasPath.Path().String()
	replicas, found, err := replicasPath.Get(c.group.Object)
	switch {
	case err != nil:
		c.errors(conformance.Must, "", err, ruleWholeCluster)
		return
	case !found:
		c.must(path, nothing, "an integer, written back by a default when the author left it out", ruleWholeCluster)
		return
	case replicas < 0:
		c.must(path, strconv.FormatInt(replicas, 10), "an integer from 0", "it is the size that the autoscaler counts from")
		return
	}
	c.atZero = replicas == 0
	if c.sizes.Scaled() && !c.sizes.Contains(replicas) {
		c.should(path, strconv.FormatInt(replicas, 10),
			fmt.Sprintf("a size from %d to %d", c.sizes.Min.Or(0), c.sizes.Max.Or(0)),
			"the autoscaler refuses to set a size outside the bounds, also one step towards them")
	}
}

func (c *checker) paused() {
	if value, paused := c.group.GetAnnotations()[contract.PausedAnnotation]; paused {
		c.should(annotationPath(contract.PausedAnnotation), quoted(value), "no such annotation",
			"the autoscaler skips paused objects, and their Nodes belong to no group")
	}
}

func (c *checker) cluster() {
	const path, rule = "spec.clusterName", "the autoscaler finds the objects of one cluster by it, and tells Machines of clusters apart"
	label := c.group.GetLabels()[c.keys.ClusterName]
	name, found, err := clusterNamePath.Get(c.group.Object)
	switch {
	case err != nil:
		c.errors(conformance.Should, "", err, rule+"; one of another type also hides the label")
	case found && name == "":
		c.should(path, `""`, "the name of the Cluster, or no field beside the label "+c.keys.ClusterName, rule)
	case !found && label == "":
		c.should(path, nothing, "the name of the Cluster, here or in the label "+c.keys.ClusterName, rule)
	case found && label != "" && label != name:
		c.should(labelPath(c.keys.ClusterName), quoted(label), quoted(name)+", as in "+path, rule)
	}
}

func (c *checker) options() {
	_, problems := c.keys.options(c.group.GetAnnotations())
	for _, p := range problems {
		c.annotation(conformance.Should, p)
	}
}

// members checks the objects that belong to the group.
func (c *checker) members() {
	c.findings = append(c.findings, CheckProviderIDs(c.around.Machines)...)
	switch c.group.GetKind() {
	case kindMachinePool:
		c.pool()
		return
	case kindMachineDeployment:
		for _, set := range c.ownSets() {
			c.machineSet(of(set), set, c.group.GetName())
		}
	}
	selector, err := selectorOf(c.group)
	c.errors(c.breaking(), "", err, ruleListing)
	switch {
	case err != nil:
	case selector.Empty():
		c.must("spec.selector", "a selector of everything", "one that selects the Machines of this group only",
			"the autoscaler counts every Machine that is selected")
	default:
		c.machines(selector)
	}
}
