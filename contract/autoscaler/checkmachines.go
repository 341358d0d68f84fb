package autoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/conformance"
)

// Rules about Machines and MachineSets.
const (
	ruleMember   = "the autoscaler counts the Machines that are selected and of the same Cluster, and finds a Node's group through owners"
	ruleInstance = "the autoscaler lists no instance of the group when it cannot read one of its Machines"
	ruleGuard    = "the autoscaler removes no Node while a MachineSet without the highest revision has replicas"
	ruleUnique   = "the autoscaler finds Machines by the text after the last slash of their provider ID, and gives up on two of the same"
	ruleExact    = "the autoscaler compares whole provider IDs, and removes instances without a Node after 15 minutes"
)

// CheckProviderIDs reports Machines that the autoscaler could not tell apart, or could not find: it looks them up by
// NormalizeProviderID over all Machines that it sees, and by made-up IDs of namespace and name. All findings are MUSTs.
func CheckProviderIDs(machines []*unstructured.Unstructured) []conformance.Finding {
	var r report
	owners := map[string][]string{}
	for _, machine := range sortedByName(machines) {
		id, _, err := providerIDPath.Get(machine.Object)
		if strings.Contains(machine.GetNamespace(), "_") {
			r.must(of(machine)+"metadata.namespace", quoted(machine.GetNamespace()), "a name without an underscore",
				"the autoscaler makes up IDs of namespace, underscore and name, and takes them apart again")
		}
		if err != nil || id == "" {
			continue
		}
		if _, madeUp := MachineOf(id); madeUp {
			r.must(of(machine)+"spec.providerID", quoted(id), "the ID of an instance", "the autoscaler makes up IDs that begin so")
		}
		normalized := NormalizeProviderID(id)
		if normalized == "" {
			r.must(of(machine)+"spec.providerID", quoted(id), "a text after the last slash", ruleUnique)
			continue
		}
		owners[normalized] = append(owners[normalized], name(machine))
	}
	for _, normalized := range slices.Sorted(maps.Keys(owners)) {
		if names := owners[normalized]; len(names) > 1 {
			r.must(names[0]+": spec.providerID", fmt.Sprintf("%s also in %s", quoted(normalized), listed(names[1:])),
				"a text after the last slash that no other Machine has", ruleUnique)
		}
	}
	return r.sorted()
}

// listed names the first five.
func listed(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func sortedByName(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	kept := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return o == nil })
	slices.SortStableFunc(kept, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return kept
}

// ownSets returns the MachineSets that a MachineDeployment owns.
func (c *checker) ownSets() []*unstructured.Unstructured {
	return slices.DeleteFunc(sortedByName(c.around.MachineSets), func(set *unstructured.Unstructured) bool {
		return set.GetNamespace() != c.group.GetNamespace() || ownerName(set, kindMachineDeployment) != c.group.GetName()
	})
}

// machineSet checks what the rollout guard reads of a MachineSet.
func (c *checker) machineSet(where string, set *unstructured.Unstructured, deployment string) {
	for _, field := range []contract.Field[int64]{replicasPath, statusReplicasPath} {
		_, _, err := field.Get(set.Object)
		c.errors(c.breaking(), where, err, ruleGuard)
	}
	revision, problem := revisionOf(set)
	text := set.GetAnnotations()[RevisionAnnotation]
	if problem != nil || !carries(set, revision) {
		c.must(where+annotationPath(RevisionAnnotation), shown(text), "a whole number in plain decimal digits, from its creation on", ruleGuard)
	}
	if label := set.GetLabels()[DeploymentNameLabel]; label != deployment {
		c.should(where+labelPath(DeploymentNameLabel), shown(label), quoted(deployment),
			"the autoscaler finds the MachineSets of a rollout by it, and does not see the rollout without")
	}
}

// machines checks the Machines of a MachineSet or MachineDeployment.
func (c *checker) machines(selector labels.Selector) {
	own := map[string]bool{}
	if c.group.GetKind() == kindMachineSet {
		own[c.group.GetName()] = true
	}
	for _, set := range c.ownSets() {
		own[set.GetName()] = true
	}
	cluster := c.keys.clusterName(c.group)
	nodes := nodesByName(c.around.Nodes)
	for _, machine := range sortedByName(c.around.Machines) {
		if machine.GetNamespace() != c.group.GetNamespace() {
			continue
		}
		m := member{owner: ownerName(machine, kindMachineSet), cluster: c.keys.clusterName(machine)}
		m.owned = own[m.owner]
		m.selected = selector.Matches(labels.Set(machine.GetLabels()))
		m.sameCluster = cluster == "" || m.cluster == cluster
		if machine.GetDeletionTimestamp().IsZero() {
			c.membership(of(machine), m, cluster)
		}
		if m.selected && m.sameCluster {
			c.instance(machine, nodes)
		}
	}
}

// member says why a Machine may belong to the group.
type member struct {
	// owner is the name of the MachineSet that owns it, and owned is true when that one is surely the group's.
	owner string
	owned bool
	// cluster is the Machine's.
	cluster               string
	selected, sameCluster bool
}

// membership checks that selector, Cluster and owner agree about a Machine.
func (c *checker) membership(where string, m member, cluster string) {
	ownersKnown := c.group.GetKind() == kindMachineSet || c.around.MachineSets != nil
	switch {
	case m.owned && !m.selected:
		c.must(where+"metadata.labels", "labels that are not selected", "labels that spec.selector of its group selects", ruleMember)
	case m.owned && !m.sameCluster:
		c.must(where+"spec.clusterName", quoted(m.cluster), quoted(cluster), ruleMember)
	case m.owned, !m.selected, !m.sameCluster:
	case m.owner == "":
		c.must(where+"metadata.ownerReferences", nothing, "an owner of kind MachineSet", ruleMember)
	case ownersKnown:
		c.must(where+"metadata.labels", "selected, and owned by MachineSet "+quoted(m.owner),
			"a spec.selector that selects no Machines of other groups", ruleMember)
	}
}

// instance checks what the autoscaler makes of a Machine.
func (c *checker) instance(machine *unstructured.Unstructured, nodes map[string]*corev1.Node) {
	where := of(machine)
	instance, err := InstanceOf(machine)
	if err != nil {
		c.errors(c.breaking(), where, err, ruleInstance)
		return
	}
	if instance.ID == "" && instance.NodeName == "" {
		c.must(where+"status.nodeRef", "a reference to no Node", "name, and kind Node or none", "the autoscaler does not count the Machine")
		return
	}
	if instance.NodeName != "" {
		c.should(where+"spec.providerID", nothing, "the provider ID of the Node",
			"the autoscaler finds the Machine of such a Node through the Node's annotations only")
	}
	nodeName, _, err := nodeNamePath.Get(machine.Object)
	if node := nodes[nodeName]; err == nil && node != nil {
		c.node(machine, node, instance)
	}
}

// node checks that a Node and its Machine name each other.
func (c *checker) node(machine *unstructured.Unstructured, node *corev1.Node, instance Instance) {
	where := "Node " + node.Name + ": "
	switch id := node.Spec.ProviderID; {
	case id == "":
		c.must(where+"spec.providerID", nothing, "the provider ID of "+name(machine), ruleExact)
	case instance.NodeName == "" && instance.CountsAsNode() && instance.ID != id:
		c.must(where+"spec.providerID", quoted(id), quoted(instance.ID)+", byte by byte as in "+name(machine), ruleExact)
	}
	key := machine.GetNamespace() + "/" + machine.GetName()
	joined := path.Join(node.Annotations[c.keys.ClusterNamespace], node.Annotations[c.keys.Machine])
	if joined != key {
		level := conformance.Should
		if instance.NodeName != "" {
			level = c.breaking()
		}
		c.add(level, where+annotationPath(c.keys.Machine), quoted(joined),
			quoted(key)+", joined from this annotation and "+c.keys.ClusterNamespace,
			"the autoscaler asks through them whether a Node still has its Machine")
	}
}

func nodesByName(nodes []*corev1.Node) map[string]*corev1.Node {
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		if node != nil {
			byName[node.Name] = node
		}
	}
	return byName
}
