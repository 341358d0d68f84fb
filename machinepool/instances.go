package machinepool

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// instanceState is the state of an instance according to the provider's list, the Nodes and the record of the pool.
type instanceState uint8

const (
	// missing, ambiguous and claimed instances are listed. They have no Node, several Nodes, or a Node that belongs to another object, or to
	// none until a person has resolved the conflict.
	missing instanceState = iota
	ambiguous
	claimed
	// here: it is listed, and has its Node.
	here
	// retired: its Node is recorded, and it is not listed any more. Only the recorded Node, with the same UID, is retired, and only while no
	// other object claims its instance.
	retired
	// moved: its Node is recorded, and another object claims it.
	moved
	// missed: its Node is recorded, and missing in the index.
	missed
	// kept: its Node stays recorded, and is not touched.
	kept
)

// instance is an instance that the provider lists, or whose Node the pool has recorded.
type instance struct {
	State instanceState
	ID    string           // as listed; empty for one that is not listed
	Node  *corev1.Node     // nil if there is none
	Ref   contract.NodeRef // the record of the Node
	// OfMachine: a Machine claims the Node, and its controller handles it when it leaves. It is set only for Nodes that leave or are retired.
	OfMachine bool
}

// instances are the instances of a pool without duplicates, sorted by their Nodes' names, then by their IDs.
type instances []instance

// in returns the instances with one of these states.
func (all instances) in(states ...instanceState) instances {
	return slices.DeleteFunc(slices.Clone(all), func(one instance) bool { return !slices.Contains(states, one.State) })
}

func (all instances) ids() []string { return mapped(all, func(one instance) string { return one.ID }) }

func (all instances) nodes() []*corev1.Node {
	return mapped(all, func(one instance) *corev1.Node { return one.Node })
}

// free returns the Nodes that the pool handles in its deletion: all but those that Machines claim.
func (all instances) free() []*corev1.Node {
	return slices.DeleteFunc(all.in(here, retired), func(one instance) bool { return one.OfMachine }).nodes()
}

// retireNone keeps the recorded Nodes that would be retired or moved.
func (all instances) retireNone() {
	for i := range all {
		if all[i].State == retired || all[i].State == moved {
			all[i].State = kept
		}
	}
}

// refs returns the Nodes to record, sorted by name: those of the instances, and recorded ones that still exist. The limit of the schema,
// 10,000, is twice what one cluster of Kubernetes can have.
func (all instances) refs() []contract.NodeRef {
	refs := mapped(all.in(here, retired, kept), func(one instance) contract.NodeRef { return one.Ref })
	return slices.CompactFunc(refs, func(a, b contract.NodeRef) bool { return a.Name == b.Name })
}

// instanceIDs returns the provider IDs of a list, sorted, without duplicates and without IDs that identify no instance. Providers list
// instances in any order, and some more than once.
func instanceIDs(list []string, rules noderef.Rules) []string {
	ids := slices.Clone(list)
	slices.Sort(ids)
	seen := sets.New("") // no instance
	return slices.DeleteFunc(ids, func(id string) bool {
		key := rules.Key(id)
		repeated := seen.Has(key)
		seen.Insert(key)
		return repeated
	})
}

// lists reports whether a list of provider IDs has the instance of a Node.
func lists(ids []string, node *corev1.Node, rules noderef.Rules) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return rules.Same(id, node.Spec.ProviderID) })
}

// instanceFacts are the inputs of findInstances.
type instanceFacts struct {
	Pool types.NamespacedName
	// IDs are the provider IDs of the instances.
	IDs []string
	// Recorded are the Nodes of earlier passes.
	Recorded []contract.NodeRef
	Nodes    noderef.Lookup
	// Claims are the claims of others; nil when there are none.
	Claims noderef.Claims
	Rules  noderef.Rules
}

// findInstances finds the instances of a pool and their Nodes. Every pass does this for all of them: a Node may no longer be Ready, or may
// have been replaced under its name.
func findInstances(f instanceFacts) instances {
	recorded := make(map[string]contract.NodeRef, len(f.Recorded))
	for _, ref := range f.Recorded {
		recorded[ref.Name] = ref
	}
	var all instances
	listed, nodes := sets.New[string](), sets.New[types.UID]()
	for _, id := range instanceIDs(f.IDs, f.Rules) {
		one := f.listed(id, recorded)
		all = append(all, one)
		listed.Insert(f.Rules.Key(id))
		if one.Node != nil {
			nodes.Insert(one.Node.UID)
		}
	}
	for _, ref := range f.Recorded {
		if node := f.Nodes.ByName(ref.Name); node == nil || !nodes.Has(node.UID) { // otherwise it is listed, even if it registered again
			all = append(all, f.recorded(ref, node, listed))
		}
	}
	slices.SortStableFunc(all, func(a, b instance) int { return cmp.Compare(a.Ref.Name, b.Ref.Name) })
	return all
}

// listed decides about an instance that the provider lists.
func (f *instanceFacts) listed(id string, recorded map[string]contract.NodeRef) instance {
	identity := noderef.Identity{Machine: f.Pool, ProviderID: id}
	if found := f.Nodes.ByProviderID(id); len(found) == 1 {
		identity.Current = recorded[found[0].Name]
	}
	found := f.Rules.Resolve(identity, f.Nodes, f.Claims)
	one := instance{State: missing, ID: id, Node: found.Node, Ref: noderef.RefTo(found.Node)}
	switch {
	case found.Node != nil:
		one.State = here
	case found.Outcome == noderef.Ambiguous:
		one.State = ambiguous
	case found.Outcome == noderef.Claimed:
		one.State = claimed
	}
	return one
}

// recorded decides about a recorded Node of no listed instance. node is the present Node with its name, or nil.
func (f *instanceFacts) recorded(ref contract.NodeRef, node *corev1.Node, listed sets.Set[string]) instance {
	if node == nil || ref.UID == "" || node.UID != ref.UID { // another Node has its name now
		return instance{State: missed, Ref: ref}
	}
	one := instance{State: retired, Node: node, Ref: ref}
	switch key := f.Rules.Key(node.Spec.ProviderID); {
	case key == "" || listed.Has(key):
		one.State = kept
	case f.claimedByOthers(node):
		one.State = moved
	}
	return one
}

// claimedByOthers reports whether another object claims the instance of a Node: the instance has moved there.
func (f *instanceFacts) claimedByOthers(node *corev1.Node) bool {
	return f.Claims != nil && slices.ContainsFunc(f.Claims(node), func(other noderef.Identity) bool {
		return other.Machine != f.Pool && f.Rules.Same(other.ProviderID, node.Spec.ProviderID)
	})
}
