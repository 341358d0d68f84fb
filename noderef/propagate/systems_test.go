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

// The policies of other systems are data. This file uses only the exported API.

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

// kubermatic propagates a Machine's spec.metadata to keys that the Node lacks, and never removes them.
func kubermatic() *propagate.Policy {
	return &propagate.Policy{
		Labels:          propagate.Selection{All: true, OnlyMissing: true},
		Annotations:     propagate.Selection{All: true, OnlyMissing: true},
		Taints:          propagate.WhenMissing,
		LabelMarks:      []propagate.Mark{{Key: "machine-controller/owned-by", Field: propagate.OwnerUID}},
		AnnotationMarks: []propagate.Mark{{Key: "cluster.k8s.io/machine", Field: propagate.OwnerNamespacedName}},
	}
}

func TestKubermaticsPolicyIsData(t *testing.T) {
	policy := kubermatic()
	desired := propagate.Desired{
		Labels:      m{"team": "blue", "zone": "ours"},
		Annotations: m{"note": "x"},
		Taints:      []propagate.Taint{{Taint: taint("gpu", "a100", "NoSchedule")}, {Taint: taint("slow", "yes", "NoSchedule")}},
		Owner:       propagate.Owner{Namespace: "kube-system", Name: "md-abc", UID: "uid-1"},
	}
	owned := node(
		m{"zone": "theirs", "team": "blue", "machine-controller/owned-by": "uid-1"},
		m{"note": "x", "cluster.k8s.io/machine": "kube-system/md-abc"},
		taint("slow", "theirs", "NoSchedule"), taint("gpu", "a100", "NoSchedule"))
	becomes(t, policy, node(m{"zone": "theirs"}, nil, taint("slow", "theirs", "NoSchedule")), desired, owned)

	t.Log("what the Machine has no more stays on the Node, and what drifted stays as it is")
	desired.Labels, desired.Taints = m{"team": "red"}, nil
	becomes(t, policy, owned, desired, owned)

	t.Log("the marks are always enforced")
	stolen := owned.DeepCopy()
	stolen.Labels["machine-controller/owned-by"] = "uid-of-another"
	stolen.Annotations["cluster.k8s.io/machine"] = "kube-system/another"
	becomes(t, policy, stolen, desired, owned)
}

// machineControllerManager propagates a Machine's nodeTemplate and remembers it with its values in one annotation.
func machineControllerManager() *propagate.Policy {
	return &propagate.Policy{
		Labels:      propagate.Selection{All: true},
		Annotations: propagate.Selection{All: true},
		LabelMarks:  []propagate.Mark{{Key: "node.gardener.cloud/machine-name", Field: propagate.OwnerName}},
		Ledger:      propagate.Ledger{Applied: "node.machine.sapcloud.io/last-applied-anno-labels-taints"},
	}
}

func TestTheMachineControllerManagersPolicyIsData(t *testing.T) {
	policy := machineControllerManager()
	const ledger = "node.machine.sapcloud.io/last-applied-anno-labels-taints"
	starting := taint("node.gardener.cloud/critical-components-not-ready", "", "NoSchedule")
	outdated := taint("deployment.machine.sapcloud.io/prefer-no-schedule", "True", "PreferNoSchedule")
	preserved := taint("node.machine.sapcloud.io/preserved", "", "NoSchedule")

	t.Log("a Node of the other system needs no write")
	// json.Marshal of its NodeTemplateSpec, with the creationTimestamp that Kubernetes wrote until 1.34.
	before := node(
		m{"node.gardener.cloud/machine-name": "m-1", "pool": "a", "manual": "x"},
		m{"note": "1", ledger: `{"metadata":{"creationTimestamp":null,"labels":{"pool":"a"},"annotations":{"note":"1"}},` +
			`"spec":{"taints":[{"key":"gpu","value":"yes","effect":"NoSchedule"}]}}`},
		starting, taint("gpu", "yes", "NoSchedule"), outdated)
	desired := propagate.Desired{
		Labels: m{"pool": "a"}, Annotations: m{"note": "1"},
		Taints: []propagate.Taint{{Taint: taint("gpu", "yes", "NoSchedule")}},
		Owner:  propagate.Owner{Name: "m-1"},
	}
	_, changed := policy.Diff(before, desired)
	require.False(t, changed)

	t.Log("the template changes, the rollout is over, and the machine is preserved")
	desired.Labels, desired.Annotations = m{"pool": "b"}, nil
	desired.Taints = []propagate.Taint{{Taint: taint("gpu", "no", "NoSchedule")}, {Taint: preserved, Propagation: propagate.WhenMissing}}
	desired.WithoutTaints = []corev1.Taint{outdated}
	after := node(
		m{"node.gardener.cloud/machine-name": "m-1", "pool": "b", "manual": "x"},
		m{ledger: `{"metadata":{"labels":{"pool":"b"}},"spec":{"taints":[{"key":"gpu","value":"no","effect":"NoSchedule"}]}}`},
		starting, taint("gpu", "no", "NoSchedule"), preserved)
	becomes(t, policy, before, desired, after)

	t.Log("what was handed down goes, and nothing else")
	gone := propagate.Desired{Owner: desired.Owner, WithoutTaints: []corev1.Taint{outdated, preserved}}
	becomes(t, policy, after, gone, node(m{"node.gardener.cloud/machine-name": "m-1", "manual": "x"},
		m{ledger: `{"metadata":{},"spec":{}}`}, starting))
}

// A pool marks its Nodes with its own name, and may share them with Machines. Its policy has no mark of the Machine.
func TestAPoolAndItsMachinesDoNotOverwriteEachOther(t *testing.T) {
	machine, pool := propagate.ClusterAPI(), propagate.ClusterAPI()
	pool.AnnotationMarks = slices.DeleteFunc(pool.AnnotationMarks, func(mark propagate.Mark) bool {
		return mark.Field == propagate.OwnerName
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
