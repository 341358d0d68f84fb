package noderef

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Index finds Nodes by provider ID and by name, in constant time. It stores pointers and copies no Node.
//
// The zero value is an empty index for the zero [Rules]. It is not safe for concurrent use with Add or Remove, but Add
// and Remove never change a slice that was returned before.
type Index struct {
	rules        Rules
	byName       map[string]*corev1.Node
	byProviderID map[string][]*corev1.Node // sorted by name
}

var _ Lookup = (*Index)(nil)

// NewIndex returns an empty index for Nodes that are looked up with these rules.
func NewIndex(rules Rules) *Index { return &Index{rules: rules} }

// BuildIndex returns an index of the Nodes for the zero [Rules]. It does not retain the slice. If two Nodes have the same name, the last
// one is used.
func BuildIndex(nodes []*corev1.Node) *Index {
	x := &Index{}
	for _, n := range nodes {
		x.Add(n)
	}
	return x
}

// Add adds a Node to the index. It replaces the one with the same name and returns it, or nil if there was none. The
// Node must not be changed while it is in the index. A nil Node is ignored.
func (x *Index) Add(node *corev1.Node) (replaced *corev1.Node) {
	if node == nil {
		return nil
	}
	if x.byName == nil {
		x.byName, x.byProviderID = map[string]*corev1.Node{}, map[string][]*corev1.Node{}
	}
	replaced = x.Remove(node.Name)
	x.byName[node.Name] = node
	if key := x.rules.Key(node.Spec.ProviderID); key != "" {
		nodes := append(slices.Clone(x.byProviderID[key]), node)
		slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
		x.byProviderID[key] = nodes
	}
	return replaced
}

// Remove removes the Node of that name from the index and returns it, or nil if there is none.
func (x *Index) Remove(name string) (removed *corev1.Node) {
	removed = x.byName[name]
	if removed == nil {
		return nil
	}
	delete(x.byName, name)
	key := x.rules.Key(removed.Spec.ProviderID)
	others := slices.DeleteFunc(slices.Clone(x.byProviderID[key]), func(n *corev1.Node) bool { return n == removed })
	if len(others) == 0 {
		delete(x.byProviderID, key)
	} else {
		x.byProviderID[key] = others
	}
	return removed
}

// ByProviderID returns the Nodes with this provider ID, sorted by name, as a view. It allocates nothing, unless a Canonical
// rewrites the ID.
func (x *Index) ByProviderID(id string) []*corev1.Node { return x.byProviderID[x.rules.Key(id)] }

// ByName returns the Node of that name as a view, or nil. It allocates nothing.
func (x *Index) ByName(name string) *corev1.Node { return x.byName[name] }

// Len returns the number of Nodes, including those without a provider ID.
func (x *Index) Len() int { return len(x.byName) }

// Names returns the names of all Nodes, sorted.
func (x *Index) Names() []string { return slices.Sorted(maps.Keys(x.byName)) }
