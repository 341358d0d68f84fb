package propagate

import (
	"maps"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func selected(patterns []*regexp.Regexp, from map[string]string) map[string]string {
	picked := maps.Clone(from)
	maps.DeleteFunc(picked, func(key, _ string) bool { return !selects(patterns, key) })
	return picked
}

func TestClusterAPISelectsItsDomains(t *testing.T) {
	labels := map[string]string{
		"node-role.kubernetes.io/worker":             "",
		"node-restriction.kubernetes.io/a":           "1",
		"team.node-restriction.kubernetes.io/a":      "1",
		"node.cluster.x-k8s.io/a":                    "1",
		"gpu.node.cluster.x-k8s.io/a":                "1",
		"node.cluster.x-k8s.io":                      "1",
		"my.node-role.kubernetes.io/worker":          "no: this domain has no subdomains",
		"company.xyz/node.cluster.x-k8s.io":          "no: the domain is in front of the slash",
		"company.xyz/node-restriction.kubernetes.io": "no",
		"gpu-node.cluster.x-k8s.io/a":                "no: another domain that ends alike",
		"xnode-restriction.kubernetes.io/a":          "no",
		"cluster.x-k8s.io/cluster-name":              "no",
		"kubernetes.io/hostname":                     "no",
		"":                                           "no",
	}
	want := map[string]string{
		"node-role.kubernetes.io/worker":        "",
		"node-restriction.kubernetes.io/a":      "1",
		"team.node-restriction.kubernetes.io/a": "1",
		"node.cluster.x-k8s.io/a":               "1",
		"gpu.node.cluster.x-k8s.io/a":           "1",
		"node.cluster.x-k8s.io":                 "1",
	}
	if diff := cmp.Diff(want, selected(ClusterAPI().Labels, labels)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	annotations := map[string]string{
		"node.cluster.x-k8s.io/a":           "1",
		"gpu.node.cluster.x-k8s.io/a":       "1",
		"gpu-node.cluster.x-k8s.io/a":       "no",
		"company.xyz/node.cluster.x-k8s.io": "no",
		"node-role.kubernetes.io/worker":    "no: a label domain",
	}
	want = map[string]string{"node.cluster.x-k8s.io/a": "1", "gpu.node.cluster.x-k8s.io/a": "1"}
	if diff := cmp.Diff(want, selected(ClusterAPI().Annotations, annotations)); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestTheZeroSelectionSelectsNothing(t *testing.T) {
	if selects(nil, "node.cluster.x-k8s.io/a") {
		t.Error("it selects a key")
	}
}

func TestOnePatternIsEnough(t *testing.T) {
	patterns := []*regexp.Regexp{nodeRole, regexp.MustCompile(`kubernetes\.io/`), regexp.MustCompile(`^exact$`)}
	for key, want := range map[string]bool{
		"node-role.kubernetes.io":      true,
		"topology.kubernetes.io/zone":  true, // unanchored, as Cluster API's
		"exact":                        true,
		"exactly":                      false,
		"kubernetes.io/hostname":       true,
		"example.com/kubernetes.io":    false,
		"gpu.node.cluster.x-k8s.io/no": false,
	} {
		if got := selects(patterns, key); got != want {
			t.Errorf("selects(%q) = %v, want %v", key, got, want)
		}
	}
	if n := allocations(func() { selects(patterns, "topology.kubernetes.io/zone") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestMarksHoldEveryFieldOfTheOwner(t *testing.T) {
	policy := Policy{AnnotationMarks: []Mark{
		{"name", func(o Owner) string { return o.Name }}, {"namespace", func(o Owner) string { return o.Namespace }},
		{"cluster", func(o Owner) string { return o.Cluster }}, {"kind", func(o Owner) string { return o.ControllerKind }},
		{"controller", func(o Owner) string { return o.ControllerName }}, {"none", func(Owner) string { return "" }},
	}}
	owner := Owner{Namespace: "ns", Name: "m", Cluster: "c", ControllerKind: "MachineSet", ControllerName: "s"}
	node := newNode(nil, m{"none": "x", "name": "old"})
	patch, _ := policy.Diff(node, Desired{Owner: owner, Annotations: m{"name": "no"}})
	got, err := apply(t, node, patch.JSON())
	if err != nil {
		t.Fatal(err)
	}
	want := newNode(nil, m{
		"name": "m", "namespace": "ns", "cluster": "c", "kind": "MachineSet", "controller": "s",
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Node (-want +got):\n%s", diff)
	}
	patch, _ = policy.Diff(got, Desired{Owner: Owner{Namespace: "ns"}})
	if got, err = apply(t, got, patch.JSON()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(newNode(nil, m{"namespace": "ns"}), got, equalEmpty); diff != "" {
		t.Errorf("a mark of a field that is empty goes (-want +got):\n%s", diff)
	}
}
