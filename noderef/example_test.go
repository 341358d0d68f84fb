package noderef_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/noderef"
)

// A Node registers again: it keeps its name and provider ID but has a new UID.
func ExampleResolve() {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "new"},
		Spec:       corev1.NodeSpec{ProviderID: "kwok://worker-1"},
	}
	nodes := noderef.BuildIndex([]*corev1.Node{node})

	recorded := noderef.Ref{Name: "worker-1", UID: "old"}
	m := noderef.Resolve(noderef.Identity{ProviderID: "kwok://worker-1", Current: recorded}, nodes)
	fmt.Println(m.Outcome, "by", m.By, "- record it:", m.Record)
	fmt.Println("may drain it now:", noderef.MayTouch(m.Node, recorded, "kwok://worker-1"))

	recorded = noderef.RefTo(m.Node)
	fmt.Println("may drain it in a later pass:", noderef.MayTouch(m.Node, recorded, "kwok://worker-1"))
	// Output:
	// Readopted by provider ID - record it: true
	// may drain it now: false
	// may drain it in a later pass: true
}
