package machinepool

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// listed is what unbelievable depends on.
type listed struct {
	pool   contract.MachinePoolState
	all    instances
	leaves func(*corev1.Node) bool
}

func TestWhichListsAreNotBelieved(t *testing.T) {
	ready := readyAt(time.Unix(1000, 0))
	a, b := testNode("a", "p://1", ready), testNode("b", "p://2", ready)
	for name, tc := range map[string]struct {
		change func(*listed)
		want   []string
	}{
		"it names none of the recorded Nodes": {func(*listed) {}, []string{"a", "b"}},
		"it names a Node that was not recorded": {func(f *listed) {
			f.all = append(f.all, instancesIn(here, testNode("new", "q://1", ready))...)
		}, []string{"a", "b"}},
		"it names a recorded one": {func(f *listed) {
			f.all = append(instancesIn(here, b), instancesIn(retired, a)...)
		}, nil},
		"it names one that has the name of a recorded one": {func(f *listed) {
			f.all = append(f.all, instancesIn(here, testNode("a", "q://1", func(n *corev1.Node) { n.UID = "another" }))...)
		}, []string{"a", "b"}},
		"their kubelets are silent": {func(f *listed) {
			f.all = instancesIn(retired, testNode("a", "p://1"), testNode("b", "p://2"))
		}, nil},
		"their kubelets are silent for a moment": {func(f *listed) {
			f.all = instancesIn(retired, testNode("a", "p://1", readiness(corev1.ConditionUnknown, time.Unix(1000, 0))))
		}, []string{"a"}},
		"their kubelets are silent for long": {func(f *listed) {
			f.all = instancesIn(retired, testNode("a", "p://1", readiness(corev1.ConditionUnknown, time.Unix(1060, 0).Add(-silentFor))))
		}, nil},
		"one of them answers":     {func(f *listed) { f.all = instancesIn(retired, testNode("a", "p://1"), b) }, []string{"b"}},
		"they are asked to leave": {func(f *listed) { f.leaves = func(*corev1.Node) bool { return true } }, nil},
		"they are being deleted": {func(f *listed) {
			f.all = instancesIn(retired, testNode("a", "p://1", ready, func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Time) }))
		}, nil},
		"nothing is listed, and nothing wanted": {func(f *listed) { f.pool.ProviderIDs, f.pool.Replicas = nil, contract.Some(int32(0)) }, nil},
		"nothing is listed, and two are wanted": {func(f *listed) { f.pool.ProviderIDs = nil }, []string{"a", "b"}},
		"nothing is listed, and what is wanted is unknown": {func(f *listed) {
			f.pool.ProviderIDs, f.pool.Replicas = nil, contract.Opt[int32]{}
		}, []string{"a", "b"}},
		"something is listed, and nothing wanted": {func(f *listed) { f.pool.Replicas = contract.Some(int32(0)) }, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := listed{all: instancesIn(retired, a, b), leaves: func(*corev1.Node) bool { return false }}
			f.pool.ProviderIDs, f.pool.Replicas = []string{"q://1", "q://2"}, contract.Some(int32(2))
			f.pool.Nodes = []contract.NodeRef{{Name: "a", UID: "a-uid"}, {Name: "b", UID: "b-uid"}}
			tc.change(&f)
			held := f.all.unbelievable(&f.pool, f.leaves, time.Unix(1060, 0))
			if diff := cmp.Diff(tc.want, names(held)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichMachinesClaimANode(t *testing.T) {
	node := testNode("n", "p://1")
	for name, tc := range map[string]struct {
		machine contract.MachineState
		want    bool
	}{
		"its instance":                 {contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "p://1"}}, true},
		"another instance":             {contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "p://2"}}, false},
		"the very Node":                {contract.MachineState{Node: contract.NodeRef{Name: "n", UID: "n-uid"}}, true},
		"the Node by name alone":       {contract.MachineState{Node: contract.NodeRef{Name: "n"}}, true},
		"the Node of this name before": {contract.MachineState{Node: contract.NodeRef{Name: "n", UID: "before"}}, false},
		"nothing":                      {contract.MachineState{}, false},
	} {
		if got := claimsNode(&tc.machine, node, noderef.Rules{}); got != tc.want {
			t.Errorf("a Machine that names %s: got %v", name, got)
		}
	}
}
