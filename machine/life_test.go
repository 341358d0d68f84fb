package machine_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

func TestAMachineReachesRunningAndIsCleanedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1", fake.WithLabels(map[string]string{
		"node-role.kubernetes.io/worker": "", "gpu.node.cluster.x-k8s.io/model": "a100", "team": "blue"}))
	w.reaches(m, "Running")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)

	fresh := w.get(m)
	infra := w.get(fake.InfraMachine(contract.V1Beta2, "m1"))
	id := fake.ProviderID(infra)
	for path, want := range map[string]string{
		"spec.providerID": id, "status.nodeRef.name": "m1", "spec.bootstrap.dataSecretName": "m1", "status.phase": "Running",
	} {
		got, _, err := contract.At[string](split(path)...).Get(fresh.Object)
		require.NoError(t, err)
		if got != want {
			t.Errorf("%s: want %q, got %q", path, want, got)
		}
	}
	addresses, _, err := contract.At[[]contract.Address]("status", "addresses").Get(fresh.Object)
	require.NoError(t, err)
	if diff := cmp.Diff([]contract.Address{{Type: "Hostname", Address: "m1"}, {Type: "InternalIP", Address: "10.0.0.1"}},
		addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	node := w.node("m1")
	if fresh.GetAnnotations()[contract.NodeUIDAnnotation] != string(node.UID) {
		t.Errorf("the Node's UID is not recorded: %v", fresh.GetAnnotations())
	}
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return key == "kubernetes.io/hostname" })
	if diff := cmp.Diff(map[string]string{"node-role.kubernetes.io/worker": "", "gpu.node.cluster.x-k8s.io/model": "a100"},
		labels); diff != "" {
		t.Errorf("labels of the Node (-want +got):\n%s", diff)
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == propagate.UninitializedTaintKey {
			t.Error("the Node is still tainted as uninitialized")
		}
	}
	for _, obj := range []*unstructured.Unstructured{infra, w.get(fake.BootstrapConfig(contract.V1Beta2, "m1"))} {
		owner := metav1.GetControllerOf(obj)
		if owner == nil || owner.UID != m.GetUID() || obj.GetLabels()[contract.ClusterNameLabel] != "demo" {
			t.Errorf("%s is not owned and labelled: %+v %v", obj.GetKind(), owner, obj.GetLabels())
		}
	}

	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m, infra, fake.BootstrapConfig(contract.V1Beta2, "m1"))
	if w.node("m1") != nil {
		t.Error("the Node is still there")
	}
}

func TestSteadyMachinesCostNothing(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	t.Logf("writes to get there: %v", w.writes())
	w.isQuiet()
}

func split(path string) []string {
	var segments []string
	for start, i := 0, 0; i <= len(path); i++ {
		if i == len(path) || path[i] == '.' {
			segments = append(segments, path[start:i])
			start = i + 1
		}
	}
	return segments
}
