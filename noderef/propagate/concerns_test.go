package propagate

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestConcerns(t *testing.T) {
	node := func() *corev1.Node {
		return newNode(m{"node-role.kubernetes.io/worker": "", "kubernetes.io/hostname": "n", "node-role.kubernetes.io/theirs": ""},
			m{
				LabelsFromMachineAnnotation: "node-role.kubernetes.io/worker",
				TaintsFromMachineAnnotation: "gpu:NoSchedule,node.kubernetes.io/ours:NoSchedule",
				MachineAnnotation:           "m", "node.alpha.kubernetes.io/ttl": "0",
			}, noSchedule("gpu", "yes"), noSchedule("node.kubernetes.io/ours", ""))
	}
	cases := []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"nothing", func(*corev1.Node) {}, false},
		{"the time to live", func(n *corev1.Node) { n.Annotations["node.alpha.kubernetes.io/ttl"] = "15" }, false},
		{"a storage plug-in's annotation", func(n *corev1.Node) { n.Annotations["csi.volume.kubernetes.io/nodeid"] = "{}" }, false},
		{"a label of another component", func(n *corev1.Node) { delete(n.Labels, "kubernetes.io/hostname") }, false},
		{"a label of another component in our domain", func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/theirs"] = "x" }, false},
		{"the node lifecycle controller's taint", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, noSchedule("node.kubernetes.io/not-ready", ""))
		}, false},
		{"the order of taints", func(n *corev1.Node) { n.Spec.Taints[0], n.Spec.Taints[1] = n.Spec.Taints[1], n.Spec.Taints[0] }, false},
		{"a label of ours changes", func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/worker"] = "x" }, true},
		{"a label of ours goes", func(n *corev1.Node) { delete(n.Labels, "node-role.kubernetes.io/worker") }, true},
		{"the ledger changes", func(n *corev1.Node) { n.Annotations[LabelsFromMachineAnnotation] = "" }, true},
		{"a mark goes", func(n *corev1.Node) { delete(n.Annotations, MachineAnnotation) }, true},
		{"a mark appears", func(n *corev1.Node) { n.Annotations[OwnerNameAnnotation] = "s" }, true},
		{"a taint of ours goes", func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }, true},
		{"a taint of ours in Kubernetes' domain changes", func(n *corev1.Node) { n.Spec.Taints[1].Value = "x" }, true},
		{"the startup taint appears", func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, uninitialized) }, true},
		{"a taint that may stand for a state", func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, noSchedule("state", "")) }, true},
	}
	policy := ClusterAPI()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			old, updated := node(), node()
			tc.change(updated)
			require.Equal(t, tc.want, policy.Concerns(old, updated))
			require.Zero(t, testing.AllocsPerRun(100, func() { policy.Concerns(old, updated) }))
			if tc.name != "the ledger changes" {
				require.Equal(t, tc.want, policy.Concerns(updated, old), "and back")
			}
		})
	}
	require.True(t, policy.Concerns(newNode(m{"node-role.kubernetes.io/worker": ""}, nil), node()), "the ledger appears")

	nothing := &Policy{}
	other := node()
	other.Labels["any"] = "1"
	require.True(t, nothing.Concerns(node(), other), "without a ledger every change counts")
}
