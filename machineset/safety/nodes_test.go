package safety_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/safety"
)

func TestANodeWithoutAMachineIsMarkedAndUnmarkedWhenThereIsOne(t *testing.T) {
	t.Parallel()
	old := noon.Add(-time.Hour)
	tests := map[string]struct {
		node    safety.Node
		machine safety.Owner
		marks   bool
		unmarks bool
		lacks   bool
	}{
		"none":                   {node: safety.Node{Created: old}, marks: true, lacks: true},
		"none, and it is marked": {node: safety.Node{Created: old, Marked: true}, lacks: true},
		"a new one":              {node: safety.Node{Created: noon.Add(-time.Minute)}},
		"one that goes":          {node: safety.Node{Created: old, Deleting: true}},
		"by its UID": {node: safety.Node{Created: old, Marked: true},
			machine: safety.Owner{Node: contract.NodeRef{Name: "x", UID: "1"}}, unmarks: true},
		"by its name": {node: safety.Node{Created: old},
			machine: safety.Owner{Node: contract.NodeRef{Name: "n"}}},
		"by its provider ID": {node: safety.Node{Created: old, ProviderID: "a://z/i-1", Marked: true},
			machine: safety.Owner{ProviderID: "a:///i-1"}, unmarks: true},
		"another one of its name": {node: safety.Node{Created: old},
			machine: safety.Owner{Node: contract.NodeRef{Name: "n", UID: "2"}}, marks: true, lacks: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.node.Name, tc.node.UID = "n", "1"
			facts := safety.NodeFacts{Nodes: []safety.Node{tc.node}, Machines: []safety.Owner{tc.machine}, Now: noon}
			p := safety.MarkNodes(facts)
			require.Equal(t, []bool{tc.marks, tc.unmarks, tc.lacks}, []bool{len(p.Mark) == 1, len(p.Unmark) == 1, len(p.Unmanaged) == 1})
			facts.Machines = nil
			require.Equal(t, safety.NodePlan{}, safety.MarkNodes(facts))
		})
	}
}

func TestNodesAreSorted(t *testing.T) {
	t.Parallel()
	p := safety.MarkNodes(safety.NodeFacts{Nodes: []safety.Node{{Name: "b"}, {Name: "a"}}, Machines: []safety.Owner{{}}, Now: noon})
	require.Equal(t, []contract.NodeRef{{Name: "a"}, {Name: "b"}}, p.Mark)
}
