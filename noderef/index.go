package noderef

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Index finds Nodes by provider ID and by name in constant time. It keeps the pointers it is given and copies no Node.
//
// The zero value is an empty index. It is not safe for concurrent use while it is changed; but a slice that it returned stays
// as it was, whatever is added or removed later.
type Index struct {
	byName       map[string]*corev1.Node
	byProviderID map[string][]*corev1.Node
}

var _ Lookup = (*Index)(nil)

// BuildIndex returns an index of the Nodes. It does not keep the slice. Of two Nodes with one name the last counts, since a
// cluster has only one.
func BuildIndex(nodes []*corev1.Node) *Index {
	x := &Index{
		byName:       make(map[string]*corev1.Node, len(nodes)),
		byProviderID: make(map[string][]*corev1.Node, len(nodes)),
	}
	for _, n := range nodes {
		x.Add(n)
	}
	return x
}

// Add puts a Node into the index, in place of the one with the same name, which it returns (nil when there was none). The
// Node must not be changed while it is in the index. A nil Node is ignored.
func (x *Index) Add(node *corev1.Node) (replaced *corev1.Node) {
	if node == nil {
		return nil
	}
	if x.byName == nil {
		x.byName = map[string]*corev1.Node{}
		x.byProviderID = map[string][]*corev1.Node{}
	}
	replaced = x.byName[node.Name]
	if replaced != nil && replaced.Spec.ProviderID != node.Spec.ProviderID {
		x.unlink(replaced)
	}
	x.byName[node.Name] = node
	x.link(node)
	return replaced
}

// Remove takes the Node of that name out of the index and returns it, or nil when there is none.
func (x *Index) Remove(name string) (removed *corev1.Node) {
	removed = x.byName[name]
	if removed != nil {
		delete(x.byName, name)
		x.unlink(removed)
	}
	return removed
}

// ByProviderID returns the Nodes with exactly this provider ID, sorted by name, as a view. It allocates nothing.
func (x *Index) ByProviderID(id string) []*corev1.Node { return x.byProviderID[id] }

// ByName returns the Node of that name as a view, or nil. It allocates nothing.
func (x *Index) ByName(name string) *corev1.Node { return x.byName[name] }

// Len returns the number of Nodes, those without a provider ID included.
func (x *Index) Len() int { return len(x.byName) }

// Names returns the names of all Nodes, sorted.
func (x *Index) Names() []string {
	names := make([]string, 0, len(x.byName))
	for name := range x.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// link never writes into a slice that a reader may hold: it builds a new one.
func (x *Index) link(node *corev1.Node) {
	id := node.Spec.ProviderID
	if !ValidProviderID(id) {
		return
	}
	old := x.byProviderID[id]
	at, found := slices.BinarySearchFunc(old, node.Name, compareName)
	next := make([]*corev1.Node, 0, len(old)+1)
	next = append(append(next, old[:at]...), node)
	if found {
		at++
	}
	x.byProviderID[id] = append(next, old[at:]...)
}

func (x *Index) unlink(node *corev1.Node) {
	id := node.Spec.ProviderID
	old := x.byProviderID[id]
	at, found := slices.BinarySearchFunc(old, node.Name, compareName)
	switch {
	case !found:
	case len(old) == 1:
		delete(x.byProviderID, id)
	default:
		next := make([]*corev1.Node, 0, len(old)-1)
		x.byProviderID[id] = append(append(next, old[:at]...), old[at+1:]...)
	}
}

func compareName(n *corev1.Node, name string) int { return strings.Compare(n.Name, name) }
