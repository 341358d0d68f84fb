package propagate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	if diff := cmp.Diff(want, ClusterAPI().SelectLabels(labels)); diff != "" {
		t.Errorf("SelectLabels() (-want +got):\n%s", diff)
	}

	annotations := map[string]string{
		"node.cluster.x-k8s.io/a":           "1",
		"gpu.node.cluster.x-k8s.io/a":       "1",
		"gpu-node.cluster.x-k8s.io/a":       "no",
		"company.xyz/node.cluster.x-k8s.io": "no",
		"node-role.kubernetes.io/worker":    "no: a label domain",
	}
	want = map[string]string{"node.cluster.x-k8s.io/a": "1", "gpu.node.cluster.x-k8s.io/a": "1"}
	if diff := cmp.Diff(want, ClusterAPI().SelectAnnotations(annotations)); diff != "" {
		t.Errorf("SelectAnnotations() (-want +got):\n%s", diff)
	}
}

func TestTheZeroPolicySelectsNothing(t *testing.T) {
	if got := (Policy{}).SelectLabels(map[string]string{"node.cluster.x-k8s.io/a": "1"}); got != nil {
		t.Errorf("SelectLabels() = %v, want nil", got)
	}
}
