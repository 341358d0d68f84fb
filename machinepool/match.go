package machinepool

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// instanceIDs returns the provider IDs of a list, each instance once, sorted. What names no instance is left out. Providers list
// instances in any order, and some more than once: neither means anything.
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

// sameInstances says whether two lists name the same instances.
func sameInstances(a, b []string, rules noderef.Rules) bool {
	return slices.Equal(instanceIDs(a, rules), instanceIDs(b, rules))
}

// matchFacts are the inputs of matchNodes.
type matchFacts struct {
	Pool types.NamespacedName
	// IDs are the provider IDs of the instances.
	IDs []string
	// Recorded are the Nodes of earlier passes.
	Recorded []contract.NodeRef
	Nodes    noderef.Lookup
	// Claims are those of others; nil when there are none.
	Claims noderef.Claims
	Rules  noderef.Rules
}

// matching is the result of matchNodes.
type matching struct {
	// Nodes are those of the instances, sorted by name.
	Nodes []*corev1.Node
	// Retired are recorded Nodes whose instance has left the pool, sorted by name. Only the recorded Node, with the same UID, is retired,
	// and only while no other object names its instance.
	Retired []*corev1.Node
	// Missing are IDs without a Node; Ambiguous those with several Nodes; Claimed those whose Node belongs to another object, or to none
	// until a person has resolved the conflict. All are sorted.
	Missing, Ambiguous, Claimed []string
	// NameTaken are the InfraMachines without a Machine whose name a Machine of another owner has.
	NameTaken []string
	// OfMachines are the names of Nodes that would leave, and are left alone because Machines claim them. taken are those of all such Nodes.
	OfMachines []string
	taken      sets.Set[string]
	// kept are recorded Nodes that are neither the pool's now nor to be retired, missed those that the index does not have, and moved those
	// whose instance another object names.
	kept, missed, moved []contract.NodeRef
}

// free returns the Nodes that the pool cordons, drains and deletes.
func (m *matching) free(nodes []*corev1.Node) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return m.taken.Has(node.Name) })
}

// all returns the Nodes of the pool that no Machine claims, those whose instance has left last.
func (m *matching) all() []*corev1.Node { return m.free(slices.Concat(m.Nodes, m.Retired)) }

// retireNone keeps the recorded Nodes that would be retired or given up.
func (m *matching) retireNone() {
	m.kept = slices.Concat(m.kept, m.moved, mapped(m.Retired, noderef.RefTo))
	m.Retired, m.moved = nil, nil
}

// refs are the Nodes to record, sorted by name: those of the instances, and those that were recorded and are still there. The limit of the
// schema, 10,000, is twice what one cluster of Kubernetes can have.
func (m *matching) refs() []contract.NodeRef {
	refs := slices.Concat(mapped(m.Retired, noderef.RefTo), m.kept, mapped(m.Nodes, noderef.RefTo))
	slices.SortFunc(refs, func(a, b contract.NodeRef) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(refs, func(a, b contract.NodeRef) bool { return a.Name == b.Name })
}

// matchNodes finds the Nodes of a pool. Every pass does it for all of them: a Node may no longer be Ready, or may have been replaced under
// its name.
func matchNodes(f matchFacts) matching {
	recorded := make(map[string]contract.NodeRef, len(f.Recorded))
	for _, ref := range f.Recorded {
		recorded[ref.Name] = ref
	}
	var m matching
	listed := sets.New(mapped(f.IDs, f.Rules.Key)...)
	for _, id := range instanceIDs(f.IDs, f.Rules) {
		switch found := f.resolve(id, recorded); {
		case found.Node != nil:
			m.Nodes = append(m.Nodes, found.Node)
		case found.Outcome == noderef.Ambiguous:
			m.Ambiguous = append(m.Ambiguous, id)
		case found.Outcome == noderef.Claimed:
			m.Claimed = append(m.Claimed, id)
		default:
			m.Missing = append(m.Missing, id)
		}
	}
	mine := sets.New(mapped(m.Nodes, (*corev1.Node).GetUID)...)
	for _, ref := range f.Recorded {
		f.judge(ref, listed, mine, &m)
	}
	byName := func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(m.Nodes, byName)
	slices.SortFunc(m.Retired, byName)
	return m
}

func (f *matchFacts) resolve(id string, recorded map[string]contract.NodeRef) noderef.Match {
	identity := noderef.Identity{Machine: f.Pool, ProviderID: id}
	if found := f.Nodes.ByProviderID(id); len(found) == 1 {
		identity.Current = recorded[found[0].Name]
	}
	return f.Rules.Resolve(identity, f.Nodes, f.Claims)
}

// judge decides about a Node that was recorded and is not among those of the instances now.
func (f *matchFacts) judge(ref contract.NodeRef, listed sets.Set[string], mine sets.Set[types.UID], m *matching) {
	node := f.Nodes.ByName(ref.Name)
	if node != nil && mine.Has(node.UID) {
		return // also an instance that has registered again
	}
	if node == nil || ref.UID == "" || node.UID != ref.UID { // a Node that has its name now is another one
		m.missed = append(m.missed, ref)
		return
	}
	key := f.Rules.Key(node.Spec.ProviderID)
	switch {
	case key == "" || listed.Has(key):
		m.kept = append(m.kept, ref)
	case f.claimedByOthers(node):
		m.moved = append(m.moved, ref)
	default:
		m.Retired = append(m.Retired, node)
	}
}

// claimedByOthers reports whether another object names the instance of a Node: the instance has moved there.
func (f *matchFacts) claimedByOthers(node *corev1.Node) bool {
	if f.Claims == nil {
		return false
	}
	return slices.ContainsFunc(f.Claims(node), func(other noderef.Identity) bool {
		return other.Machine != f.Pool && f.Rules.Same(other.ProviderID, node.Spec.ProviderID)
	})
}
