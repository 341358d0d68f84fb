package propagate

import (
	"maps"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// Nodes as Cluster API v1.13 writes them, with and without its feature gate for taints. Taking over a fleet must not cause a write.
func TestAFleetOfClusterAPIIsTakenOverWithoutAWrite(t *testing.T) {
	alone := m{
		ClusterNameAnnotation: "c", ClusterNamespaceAnnotation: "ns", MachineAnnotation: "m",
		LabelsFromMachineAnnotation: "", AnnotationsFromMachineAnnotation: "",
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
	}
	with := func(base m, more m) m {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	owned := with(alone, m{OwnerKindAnnotation: "MachineSet", OwnerNameAnnotation: "s"})
	one := Owner{Cluster: "c", Namespace: "ns", Name: "m"}
	ofSet := one
	ofSet.ControllerKind, ofSet.ControllerName = "MachineSet", "s"
	machineLabels := m{"cluster.x-k8s.io/cluster-name": "c", "node-role.kubernetes.io/worker": "", "disk.node.cluster.x-k8s.io/kind": "ssd"}
	gpu := corev1.Taint{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}

	patterns := ClusterAPI()
	patterns.Labels = append(patterns.Labels, regexp.MustCompile(`topology\.`))

	cases := []struct {
		name    string
		policy  *Policy
		node    *corev1.Node
		desired Desired
	}{
		{name: "a Machine without a controller", node: newNode(m{"x": "1"}, alone), desired: Desired{Owner: one}},
		{name: "a Machine of a set", node: newNode(m{"x": "1"}, owned), desired: Desired{Owner: ofSet}},
		{
			name: "labels and annotations were propagated",
			node: newNode(m{"node-role.kubernetes.io/worker": "", "disk.node.cluster.x-k8s.io/kind": "ssd", "kubernetes.io/hostname": "n"},
				with(owned, m{
					LabelsFromMachineAnnotation:      "disk.node.cluster.x-k8s.io/kind,node-role.kubernetes.io/worker",
					AnnotationsFromMachineAnnotation: "node.cluster.x-k8s.io/a", "node.cluster.x-k8s.io/a": "1",
				})),
			desired: Desired{Labels: machineLabels, Annotations: m{"node.cluster.x-k8s.io/a": "1", "note": "x"}, Owner: ofSet},
		},
		{
			name: "labels by a user's pattern, on a spot instance", policy: patterns,
			node: newNode(m{"topology.kubernetes.io/zone": "z", InterruptibleLabel: ""},
				with(owned, m{LabelsFromMachineAnnotation: InterruptibleLabel + ",topology.kubernetes.io/zone"})),
			desired: Desired{Labels: m{"topology.kubernetes.io/zone": "z"}, AddLabels: m{InterruptibleLabel: ""}, Owner: ofSet},
		},
		{
			name: "the feature gate for taints was on, and there are none",
			node: newNode(nil, with(owned, m{TaintsFromMachineAnnotation: ""})), desired: Desired{Owner: ofSet},
		},
		{
			name: "taints were propagated, and the one for new Nodes was removed",
			node: newNode(nil, with(owned, m{TaintsFromMachineAnnotation: "gpu:NoSchedule"}), gpu),
			desired: Desired{Owner: ofSet, Taints: []Taint{{gpu, Always},
				{corev1.Taint{Key: "o", Effect: corev1.TaintEffectNoExecute}, OnInitialization}}},
		},
		{
			name:    "a Node with the mark of an outdated revision",
			node:    newNode(nil, owned, corev1.Taint{Key: "node.cluster.x-k8s.io/outdated-revision", Effect: corev1.TaintEffectPreferNoSchedule}),
			desired: Desired{Owner: ofSet},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if tc.policy == nil {
				tc.policy = ClusterAPI()
			}
			patch, changed := tc.policy.Diff(tc.node, tc.desired)
			require.False(t, changed, patch.String())
		})
	}
}
