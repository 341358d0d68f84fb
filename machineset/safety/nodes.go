package safety

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// UnmanagedNodeAnnotation of a Node says that no Machine belongs to it. Rule: machine-controller-manager's AnnotateNodesUnmanagedByMCM.
const UnmanagedNodeAnnotation = "machinist.dev/not-managed"

// Node is what MarkNodes looks at of a Node.
type Node struct {
	Name       string
	UID        types.UID
	ProviderID string
	Created    time.Time
	// Marked: it has the annotation.
	Marked, Deleting bool
}

// NodeFacts are what MarkNodes looks at. They are not changed.
type NodeFacts struct {
	Nodes []Node
	// Machines are those of the cluster; none means that they are not known, and nothing changes.
	Machines []Owner
	// Age is how old a Node without a Machine is at least: a new one may be about to be matched. Default 20 minutes, Gardener's creation
	// timeout.
	Age time.Duration
	Now time.Time
}

// NodePlan is what MarkNodes decides, each sorted by name. Nothing is ever deleted.
type NodePlan struct {
	// Mark and Unmark are the Nodes whose annotation changes.
	Mark, Unmark []contract.NodeRef
	// Unmanaged are all Nodes that no Machine belongs to.
	Unmanaged []contract.NodeRef
}

// MarkNodes says which Nodes have no Machine. A Node has one that refers to its UID, to its name without a UID, or to its provider ID in
// whatever form.
func MarkNodes(f NodeFacts) NodePlan {
	var p NodePlan
	if len(f.Machines) == 0 {
		return p
	}
	owned := nodesOf(f.Machines)
	for _, n := range f.Nodes {
		ref := contract.NodeRef{Name: n.Name, UID: n.UID}
		switch {
		case owned(n) && n.Marked:
			p.Unmark = append(p.Unmark, ref)
		case owned(n) || n.Deleting || f.Now.Before(n.Created.Add(positive(f.Age, 20*time.Minute))):
		default:
			p.Unmanaged = append(p.Unmanaged, ref)
			if !n.Marked {
				p.Mark = append(p.Mark, ref)
			}
		}
	}
	for _, list := range [][]contract.NodeRef{p.Mark, p.Unmark, p.Unmanaged} {
		slices.SortFunc(list, func(a, b contract.NodeRef) int { return strings.Compare(a.Name, b.Name) })
	}
	return p
}

// nodesOf returns a function that reports whether a Node belongs to one of some Machines.
func nodesOf(machines []Owner) func(Node) bool {
	known := map[string]bool{}
	for _, m := range machines {
		known["uid:"+string(m.Node.UID)] = m.Node.UID != ""
		if m.Node.UID == "" && m.Node.Name != "" {
			known["name:"+m.Node.Name] = true
		}
		for _, id := range idKeys(m.ProviderID) {
			known["id:"+id] = true
		}
	}
	return func(n Node) bool {
		return known["uid:"+string(n.UID)] || known["name:"+n.Name] ||
			slices.ContainsFunc(idKeys(n.ProviderID), func(id string) bool { return known["id:"+id] })
	}
}
