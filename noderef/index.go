package noderef

import (
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
	byProviderID bucket
}

var _ Lookup = (*Index)(nil)

// NewIndex returns an empty index for Nodes that are looked up with these rules.
func NewIndex(rules Rules) *Index {
	x := &Index{rules: rules}
	x.init(0)
	return x
}

// BuildIndex returns an index of the Nodes for the zero [Rules]. It does not keep the slice. If two Nodes have the same
// name, the last one is used.
func BuildIndex(nodes []*corev1.Node) *Index {
	x := &Index{}
	x.init(len(nodes))
	for _, n := range nodes {
		x.Add(n)
	}
	return x
}

func (x *Index) init(size int) {
	x.byName = make(map[string]*corev1.Node, size)
	x.byProviderID = make(bucket, size)
}

// Add adds a Node to the index. It replaces the one with the same name and returns it, or nil if there was none. The
// Node must not be changed while it is in the index. A nil Node is ignored.
func (x *Index) Add(node *corev1.Node) (replaced *corev1.Node) {
	if node == nil {
		return nil
	}
	if x.byName == nil {
		x.init(0)
	}
	replaced = x.byName[node.Name]
	x.byName[node.Name] = node
	x.link(replaced, node)
	return replaced
}

// Remove removes the Node of that name from the index and returns it, or nil if there is none.
func (x *Index) Remove(name string) (removed *corev1.Node) {
	removed = x.byName[name]
	if removed != nil {
		delete(x.byName, name)
		x.link(removed, nil)
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
func (x *Index) Names() []string {
	names := make([]string, 0, len(x.byName))
	for name := range x.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// link removes a Node from the index, adds one, or replaces one with another of the same name. Either may be nil.
func (x *Index) link(out, in *corev1.Node) {
	x.byProviderID.move(x.providerKey(out), x.providerKey(in), out, in)
}

func (x *Index) providerKey(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	return x.rules.Key(node.Spec.ProviderID)
}

// bucket holds Nodes by a key that several may share, sorted by name. It never changes a slice, because a reader may
// hold it: it makes a new one. The empty key is ignored.
type bucket map[string][]*corev1.Node

func (b bucket) move(from, to string, out, in *corev1.Node) {
	if from != to && from != "" {
		b.remove(from, out.Name)
	}
	b.put(to, in)
}

func (b bucket) put(key string, node *corev1.Node) {
	if key == "" {
		return
	}
	old := b[key]
	at, found := slices.BinarySearchFunc(old, node.Name, compareName)
	next := make([]*corev1.Node, 0, len(old)+1)
	next = append(append(next, old[:at]...), node)
	if found {
		at++
	}
	b[key] = append(next, old[at:]...)
}

func (b bucket) remove(key, name string) {
	old := b[key]
	at, found := slices.BinarySearchFunc(old, name, compareName)
	switch {
	case !found:
	case len(old) == 1:
		delete(b, key)
	default:
		next := make([]*corev1.Node, 0, len(old)-1)
		b[key] = append(append(next, old[:at]...), old[at+1:]...)
	}
}

func compareName(n *corev1.Node, name string) int { return strings.Compare(n.Name, name) }
