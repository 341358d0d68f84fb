package machinepool

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestCountersFollowTheNodesBothWays(t *testing.T) {
	// Cluster API says that all replicas are ready and available, whatever their Nodes say, and does not look again once all were.
	now := time.Unix(10000, 0)
	version := func(v string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = v }
	}
	nodes := []*corev1.Node{
		testNode("deleted", "p://0", readyAt(now.Add(-time.Hour)), version("v1.36.3"),
			func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Time) }),
		testNode("not-ready", "p://1", readiness(corev1.ConditionFalse, now.Add(-time.Hour)), version("v1.36.3")),
		testNode("old", "p://2", readyAt(now.Add(-time.Hour)), version("v1.35.0")),
		testNode("silent", "p://3", version("v1.36.3+k3s1")),
		testNode("young", "p://4", readyAt(now.Add(-4*time.Second)), version("v1.36.3-eks-1")),
		testNode("younger", "p://5", readyAt(now.Add(-2*time.Second)), version("v1.36.30")),
	}
	want := counts{
		Ready: 3, Available: 1, UpToDate: 4, NotReady: []string{"deleted", "not-ready", "silent"}, Outdated: []string{"old", "younger"},
		Again: 6 * time.Second,
	}
	if diff := cmp.Diff(want, countNodes(nodes, 10*time.Second, "v1.36.3", now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	later := now.Add(want.Again)
	if got := countNodes(nodes, 10*time.Second, "v1.36.3", later); got.Available != 2 {
		t.Errorf("at the time that was asked for one more is available, got %d", got.Available)
	}
	if got := countNodes(nodes, 0, "v1.36", now); got.UpToDate != 5 {
		t.Errorf("a version without a patch is that of any patch, got %+v", got)
	}
	if got := countNodes(nodes, 0, "", now); got.Available != 3 || got.UpToDate != 6 || got.Again != 0 {
		t.Errorf("without a time to wait and a version: got %+v", got)
	}
}

func TestMachinesAreCountedByTheirConditions(t *testing.T) {
	one := func(name, version string, deleting bool, true_ ...string) machine {
		m := &contract.MachineState{Metadata: contract.Metadata{Key: types.NamespacedName{Name: name}}}
		m.Version = version
		if deleting {
			m.Deleting = time.Unix(1, 0)
		}
		for _, kind := range true_ {
			m.Conditions = append(m.Conditions, engine.Condition(kind, metav1.ConditionTrue, "R", ""))
		}
		return machineOf(m, nil)
	}
	upgraded, outdated := one("upgraded", "v0", false), one("outdated", "v1", false)
	upgraded.State.Node.Name, outdated.State.Node.Name = "n1", "n0" // their kubelets know better
	got := countMachines([]machine{
		one("a", "v1", false, contract.ConditionReady, contract.ConditionAvailable), one("b", "v1", false, contract.ConditionReady),
		one("c", "v0", false),
		one("d", "v1", true, contract.ConditionReady), upgraded, outdated,
	}, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v0"}}}}, "v1")
	want := counts{Ready: 3, Available: 1, UpToDate: 3, NotReady: []string{"c", "upgraded", "outdated"},
		Outdated: []string{"c", "d", "outdated"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
