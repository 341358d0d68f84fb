package propagate_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/noderef/propagate"
)

// This file uses only the exported API.

type m = map[string]string

func node(labels, annotations m, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// becomes patches a Node, compares the result with the wanted Node, and requires that a second pass sends nothing.
func becomes(t *testing.T, policy *propagate.Policy, from *corev1.Node, desired propagate.Desired, want *corev1.Node) {
	t.Helper()
	patch, changed := policy.Diff(from, desired)
	got := from
	if changed {
		document, err := json.Marshal(from)
		require.NoError(t, err)
		operations, err := jsonpatch.DecodePatch(patch.JSON())
		require.NoError(t, err)
		document, err = operations.Apply(document)
		require.NoError(t, err, patch.String())
		got = &corev1.Node{}
		require.NoError(t, json.Unmarshal(document, got))
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Node (-want +got):\n%s\n%s", diff, patch)
	}
	patch, changed = policy.Diff(got, desired)
	require.False(t, changed, "a second pass: %s", patch)
}

// A pool marks its Nodes with its own name, and may share them with Machines. Its policy has no mark of the Machine.
func TestAPoolAndItsMachinesDoNotOverwriteEachOther(t *testing.T) {
	machine, pool := propagate.ClusterAPI(), propagate.ClusterAPI()
	pool.AnnotationMarks = slices.DeleteFunc(pool.AnnotationMarks, func(mark propagate.Mark) bool {
		return mark.Key == propagate.MachineAnnotation
	})
	labels := m{"node-role.kubernetes.io/worker": ""}
	ofPool := propagate.Desired{Labels: labels, Owner: propagate.Owner{
		Namespace: "ns", Cluster: "c", ControllerKind: "MachinePool", ControllerName: "p",
	}}
	ofMachine := ofPool
	ofMachine.Owner.Name = "p-0"

	annotations := m{
		propagate.ClusterNameAnnotation: "c", propagate.ClusterNamespaceAnnotation: "ns",
		propagate.OwnerKindAnnotation: "MachinePool", propagate.OwnerNameAnnotation: "p",
		propagate.LabelsFromMachineAnnotation: "node-role.kubernetes.io/worker", propagate.TaintsFromMachineAnnotation: "",
	}
	poolNode := node(labels, annotations)
	becomes(t, pool, node(nil, nil, taint(propagate.UninitializedTaintKey, "", propagate.UninitializedTaintEffect)), ofPool, poolNode)
	both := poolNode.DeepCopy()
	both.Annotations[propagate.MachineAnnotation] = "p-0"
	becomes(t, machine, poolNode, ofMachine, both)
	becomes(t, pool, both, ofPool, both)
}
