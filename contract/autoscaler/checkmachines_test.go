package autoscaler_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract/autoscaler"
)

func owner(kind, name string) []any { return []any{map[string]any{"kind": kind, "name": name}} }

func TestCheck_MachinesOfAGroup(t *testing.T) {
	machine := parse(t, machineYAML)
	const where = "Machine default/workers-a: "
	tests := map[string]struct {
		machine *unstructured.Unstructured
		want    []string
		// ofSet are further findings about the MachineSet that owns the Machine.
		sets []*unstructured.Unstructured
		kind string
	}{
		"a Machine that meets the contract":                       {machine: machine},
		"of a MachineDeployment, whose MachineSets are not known": {machine: machine, kind: "MachineDeployment"},
		"labels that are not selected": {machine: with(t, machine, "metadata/labels/set", "other"),
			want: []string{`MUST ` + where +
				`metadata.labels: found labels that are not selected, want labels that spec.selector of its group selects`}},
		"another Cluster": {machine: with(t, machine, "spec/clusterName", "red"),
			want: []string{`MUST ` + where + `spec.clusterName: found "red", want "blue"`}},
		"no owner": {machine: with(t, machine, "metadata/ownerReferences", nil),
			want: []string{`MUST ` + where + `metadata.ownerReferences: found nothing, want an owner of kind MachineSet`}},
		"an owner of another kind": {machine: with(t, machine, "metadata/ownerReferences", owner("Cluster", "workers")),
			want: []string{`MUST ` + where + `metadata.ownerReferences: found nothing, want an owner of kind MachineSet`}},
		"owned by another MachineSet": {machine: with(t, machine, "metadata/ownerReferences", owner("MachineSet", "others")),
			want: []string{`MUST ` + where +
				`metadata.labels: found selected, and owned by MachineSet "others", want a spec.selector that selects no Machines of other groups`}},
		"of another MachineSet, and none of ours": {
			machine: with(t, with(t, machine, "metadata/ownerReferences", owner("MachineSet", "others")), "metadata/labels", nil)},
		"of another namespace": {
			machine: with(t, with(t, machine, "metadata/namespace", "other"), "metadata/ownerReferences", nil)},
		"on its way out": {
			machine: with(t, with(t, machine, "metadata/deletionTimestamp", "2026-01-01T00:00:00Z"), "metadata/ownerReferences", nil)},
		"a provider ID of another type": {machine: with(t, machine, "spec/providerID", int64(1)),
			want: []string{`MUST ` + where + `spec.providerID: found integer, want string`}},
		"a Node reference of another type": {machine: with(t, machine, "status/nodeRef", "node-a"),
			want: []string{`MUST ` + where + `status.nodeRef: found string, want object`}},
		"a reference to something else": {machine: with(t, with(t, machine, "spec/providerID", nil), "status/nodeRef/kind", "Pod"),
			want: []string{`MUST ` + where + `status.nodeRef: found a reference to no Node, want name, and kind Node or none`}},
		"a Node and no provider ID": {machine: with(t, machine, "spec/providerID", nil),
			want: []string{`SHOULD ` + where + `spec.providerID: found nothing, want the provider ID of the Node`}},
		"a made-up ID": {machine: with(t, machine, "spec/providerID", "pending-machine-default_a"),
			want: []string{`MUST ` + where + `spec.providerID: found "pending-machine-default_a", want the ID of an instance`}},
		"an ID that ends in a slash": {machine: with(t, machine, "spec/providerID", "example://eu/"),
			want: []string{`MUST ` + where + `spec.providerID: found "example://eu/", want a text after the last slash`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			group := parse(t, machineSetYAML)
			if tc.kind != "" {
				group = ofKind(t, tc.kind)
			}
			around := autoscaler.Around{Machines: []*unstructured.Unstructured{tc.machine, nil}, MachineSets: tc.sets}
			require.ElementsMatch(t, tc.want, short(autoscaler.Check(autoscaler.DefaultKeys(), group, around)))
		})
	}
}

func TestCheck_MachinesOfADeploymentBelongToItsMachineSets(t *testing.T) {
	deployment := with(t, ofKind(t, "MachineDeployment"), "metadata/name", "d")
	set := with(t, parse(t, machineSetYAML), "metadata/ownerReferences", owner("MachineDeployment", "d"))
	set = with(t, set, "metadata/labels", autoscaler.DeploymentNameLabel, "d")
	set = with(t, set, "metadata/annotations", autoscaler.RevisionAnnotation, "1")
	foreign := with(t, with(t, set, "metadata/name", "foreign"), "metadata/ownerReferences", owner("MachineDeployment", "e"))
	machine := parse(t, machineYAML)
	around := autoscaler.Around{MachineSets: []*unstructured.Unstructured{set, foreign}, Machines: []*unstructured.Unstructured{machine}}
	require.Empty(t, short(autoscaler.Check(autoscaler.DefaultKeys(), deployment, around)))

	around.Machines[0] = with(t, machine, "metadata/ownerReferences", owner("MachineSet", "foreign"))
	require.Equal(t, []string{`MUST Machine default/workers-a: metadata.labels: found selected, and owned by MachineSet "foreign", want a spec.selector that selects no Machines of other groups`},
		short(autoscaler.Check(autoscaler.DefaultKeys(), deployment, around)))
}

func TestCheck_MachinesOfAPool(t *testing.T) {
	pool := ofKind(t, "MachinePool")
	machine := with(t, parse(t, machineYAML), "metadata/ownerReferences", owner("MachinePool", "workers"))
	const where = "Machine default/workers-a: "
	tests := map[string]struct {
		machine *unstructured.Unstructured
		want    []string
	}{
		"one that is listed": {machine: machine},
		"one that starts":    {machine: with(t, machine, "spec/providerID", nil)},
		"one of another pool": {
			machine: with(t, with(t, machine, "metadata/ownerReferences", owner("MachinePool", "others")), "spec/providerID", "x")},
		"one that is not listed": {machine: with(t, machine, "spec/providerID", "example://eu/3"),
			want: []string{`SHOULD ` + where + `spec.providerID: found "example://eu/3", want an entry of spec.providerIDList of its pool`}},
		"a provider ID of another type": {machine: with(t, machine, "spec/providerID", true),
			want: []string{`MUST ` + where + `spec.providerID: found bool, want string`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			around := autoscaler.Around{Machines: []*unstructured.Unstructured{tc.machine}}
			require.ElementsMatch(t, tc.want, short(autoscaler.Check(autoscaler.DefaultKeys(), pool, around)))
		})
	}
}

// node is a Node that names its Machine as Cluster API does.
func node(name, providerID string, annotations map[string]string) *corev1.Node {
	if annotations == nil {
		annotations = map[string]string{"cluster.x-k8s.io/machine": "workers-a", "cluster.x-k8s.io/cluster-namespace": "default"}
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

func TestCheck_NodesOfMachines(t *testing.T) {
	const annotation = "Node node-a: metadata.annotations.cluster.x-k8s.io/machine"
	const wanted = `want "default/workers-a", joined from this annotation and cluster.x-k8s.io/cluster-namespace`
	tests := map[string]struct {
		node *corev1.Node
		// noID takes the provider ID from the Machine.
		noID bool
		want []string
	}{
		"a Node and a Machine that name each other": {node: node("node-a", "example://eu/1", nil)},
		"both names in one annotation": {
			node: node("node-a", "example://eu/1", map[string]string{"cluster.x-k8s.io/machine": "default/workers-a"})},
		"both names, and the namespace once more": {node: node("node-a", "example://eu/1", map[string]string{
			"cluster.x-k8s.io/machine": "default/workers-a", "cluster.x-k8s.io/cluster-namespace": "default"}),
			want: []string{`SHOULD ` + annotation + `: found "default/default/workers-a", ` + wanted}},
		"no annotations": {node: node("node-a", "example://eu/1", map[string]string{}),
			want: []string{`SHOULD ` + annotation + `: found "", ` + wanted}},
		"another Node is not looked at": {node: node("node-b", "other", map[string]string{})},
		"a Node without a provider ID": {node: node("node-a", "", nil),
			want: []string{`MUST Node node-a: spec.providerID: found nothing, want the provider ID of Machine default/workers-a`}},
		"the same instance, named another": {node: node("node-a", "example:///1", nil),
			want: []string{`MUST Node node-a: spec.providerID: found "example:///1", want "example://eu/1", byte by byte as in Machine default/workers-a`}},
		"without a provider ID the Machine is found by annotations only": {noID: true,
			node: node("node-a", "example://eu/1", map[string]string{}), want: []string{
				`MUST ` + annotation + `: found "", ` + wanted,
				`SHOULD Machine default/workers-a: spec.providerID: found nothing, want the provider ID of the Node`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			machine := parse(t, machineYAML)
			if tc.noID {
				machine = with(t, machine, "spec/providerID", nil)
			}
			around := autoscaler.Around{Machines: []*unstructured.Unstructured{machine}, Nodes: []*corev1.Node{tc.node, nil}}
			require.ElementsMatch(t, tc.want, short(autoscaler.Check(autoscaler.DefaultKeys(), parse(t, machineSetYAML), around)))
		})
	}
}

func TestCheck_NodesOfAPool(t *testing.T) {
	pool := ofKind(t, "MachinePool")
	around := autoscaler.Around{Nodes: []*corev1.Node{node("a", "example:///1", nil), node("b", "example://eu/2", nil), node("c", "", nil),
		nil}}
	require.Equal(t, []string{`MUST spec.providerIDList[0]: found "example://eu/1", want "example:///1", byte by byte as in the Node`},
		short(autoscaler.Check(autoscaler.DefaultKeys(), pool, around)))
	around.Nodes = append(around.Nodes, node("d", "example://us/1", nil))
	require.Empty(t, autoscaler.Check(autoscaler.DefaultKeys(), pool, around), "two Nodes share the key, and it is unknown which is meant")
}

func TestCheckProviderIDs_FindsMachinesThatShareALastSegment(t *testing.T) {
	machine := func(namespace, name, id string) *unstructured.Unstructured {
		m := with(t, with(t, parse(t, machineYAML), "metadata/name", name), "metadata/namespace", namespace)
		return with(t, m, "spec/providerID", id)
	}
	require.Empty(t, autoscaler.CheckProviderIDs(nil))
	require.Equal(t, []string{
		`MUST Machine a/one: spec.providerID: found "1" also in Machine a/two, Machine b/one, want a text after the last slash that no other Machine has`,
		`MUST Machine a_b/one: metadata.namespace: found "a_b", want a name without an underscore`,
	}, short(autoscaler.CheckProviderIDs([]*unstructured.Unstructured{
		machine("b", "one", "example://us/1"), machine("a", "two", "1"), machine("a", "one", "example://eu/1"),
		machine("a", "four", "example://eu/4"),
		machine("a_b", "one", ""), nil,
	})))

	var many []*unstructured.Unstructured
	for i := range 20 {
		many = append(many, machine("a", "m"+strconv.Itoa(10+i), "example://eu/1"))
	}
	require.Equal(t, []string{`MUST Machine a/m10: spec.providerID: found "1" also in Machine a/m11, Machine a/m12, Machine a/m13, Machine a/m14, Machine a/m15 and 14 more, ` +
		`want a text after the last slash that no other Machine has`}, short(autoscaler.CheckProviderIDs(many)))
}
