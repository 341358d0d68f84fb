package simulation

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/noderef"
)

// typedNodes are Nodes in the form of Go, which objects that never change have once.
type typedNodes map[*unstructured.Unstructured]*corev1.Node

// of returns a Node that must not be changed.
func (t typedNodes) of(obj *unstructured.Unstructured) *corev1.Node {
	node := t[obj]
	if node == nil {
		if len(t) >= mostIndexed {
			clear(t)
		}
		node = typed[corev1.Node](obj)
		t[obj] = node
	}
	return node
}

func nodeKind() schema.GroupKind { return schema.GroupKind{Kind: "Node"} }

// nodes finds the Nodes of a cluster in a view.
type nodes struct {
	*view

	kind     *viewed
	starting *sync.WaitGroup // of a Source that a Tracker starts; nil for one of a controller
}

// nodes are those of a cluster that a process knows.
func (p *process) nodes(of *workloadCluster) nodes {
	n := nodes{view: p.view, kind: p.view.kinds[schema.GroupKind{Group: of.space, Kind: "Node"}]}
	if len(p.links) > 0 {
		n.starting = p.starting
	}
	return n
}

// nodesFor are those of the cluster of a Machine.
func (p *process) nodesFor(m *unstructured.Unstructured) nodes {
	return p.nodes(p.world.clusterOf(m.GetNamespace()))
}

// HasSynced implements workload.Nodes.
func (n nodes) HasSynced() bool { return !n.kind.unlisted }

// ByName implements noderef.Lookup.
func (n nodes) ByName(name string) *corev1.Node {
	obj := n.kind.objects[types.NamespacedName{Name: name}]
	if obj == nil {
		return nil
	}
	return n.typed.of(obj)
}

// ByProviderID implements noderef.Lookup.
func (n nodes) ByProviderID(id string) []*corev1.Node {
	if !noderef.ValidProviderID(id) {
		return nil
	}
	var found []*corev1.Node
	for _, obj := range n.kind.sorted() {
		if has, _, _ := unstructured.NestedString(obj.Object, "spec", "providerID"); sameID(has, id) {
			found = append(found, n.ByName(obj.GetName()))
		}
	}
	return found
}
