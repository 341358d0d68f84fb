package noderef_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// A Node registers again: it keeps its name and provider ID but has a new UID.
func ExampleRules_MayTouch() {
	var rules noderef.Rules // only equal provider IDs match
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "new"},
		Spec:       corev1.NodeSpec{ProviderID: "kwok://worker-1"},
	}
	nodes := noderef.BuildIndex([]*corev1.Node{node})

	recorded := contract.NodeRef{Name: "worker-1", UID: "old"}
	m := rules.Resolve(noderef.Identity{ProviderID: "kwok://worker-1", Current: recorded}, nodes, nil)
	fmt.Println(m.Outcome, "- record it:", m.Record)
	fmt.Println("may drain it now:", rules.MayTouch(m.Node, recorded, "kwok://worker-1"))

	recorded = noderef.RefTo(m.Node)
	fmt.Println("may drain it in a later pass:", rules.MayTouch(m.Node, recorded, "kwok://worker-1"))
	// Output:
	// Readopted - record it: true
	// may drain it now: false
	// may drain it in a later pass: true
}

// Two Machines have one provider ID, which the cloud controller writes in lower case. The Node belongs to the one that has recorded it.
func ExampleRules_Resolve() {
	rules := noderef.Rules{Canonical: strings.ToLower} // right where no two IDs differ by their case alone
	nodes := noderef.NewIndex(rules)
	nodes.Add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "u-1"},
		Spec:       corev1.NodeSpec{ProviderID: "vsphere://4212A3F0-0BD6-4E0F-A2A1-0F2F2BE8F9AB"},
	})
	machines := fleet{
		{
			Machine: types.NamespacedName{Name: "a"}, ProviderID: "vsphere://4212a3f0-0bd6-4e0f-a2a1-0f2f2be8f9ab",
			Current: contract.NodeRef{Name: "worker-1", UID: "u-1"},
		},
		{Machine: types.NamespacedName{Name: "b"}, ProviderID: "vsphere://4212a3f0-0bd6-4e0f-a2a1-0f2f2be8f9ab"},
	}
	for _, id := range machines {
		m := rules.Resolve(id, nodes, machines.claims)
		fmt.Println(id.Machine.Name, m.Outcome, "rival:", m.Rivals[0].Machine.Name)
	}
	// Output:
	// a Matched rival: b
	// b Claimed rival: a
}

// fleet is a list of all Machines. A reconciler uses the index of its cache instead.
type fleet []noderef.Identity

func (f fleet) claims(*corev1.Node) []noderef.Identity { return f }
