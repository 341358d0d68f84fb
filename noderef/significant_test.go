package noderef

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func fullNode() *corev1.Node {
	n := newNode("a", "u1", "test://1")
	n.Labels = map[string]string{"l": "1"}
	n.Annotations = map[string]string{"a": "1", "cluster.x-k8s.io/x": "1"}
	n.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
	n.Status = corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: "v1.36.3",
			Swap:           &corev1.NodeSwapStatus{Capacity: ptr.To[int64](1)},
		},
		Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: "KernelDeadlock", Status: corev1.ConditionFalse},
		},
	}
	return n
}

func TestSignificant(t *testing.T) {
	now := metav1.NewTime(time.Unix(1, 0))
	cases := []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"nothing changes", func(*corev1.Node) {}, false},
		{"a heartbeat", func(n *corev1.Node) {
			n.ResourceVersion = "2"
			for i := range n.Status.Conditions {
				n.Status.Conditions[i].LastHeartbeatTime = now
				n.Status.Conditions[i].Message = "other"
			}
		}, false},
		{"images, volumes, capacity", func(n *corev1.Node) {
			n.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
			n.Status.VolumesInUse = []corev1.UniqueVolumeName{"x"}
			n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		}, false},
		{"the time of a taint", func(n *corev1.Node) { n.Spec.Taints[0].TimeAdded = &now }, false},
		{"the order of conditions", func(n *corev1.Node) {
			c := n.Status.Conditions
			c[0], c[1] = c[1], c[0]
		}, false},
		{"another UID", func(n *corev1.Node) { n.UID = "u2" }, true},
		{"deletion starts", func(n *corev1.Node) { n.DeletionTimestamp = &now }, true},
		{"the provider ID appears", func(n *corev1.Node) { n.Spec.ProviderID = "test://2" }, true},
		{"cordon", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"a label", func(n *corev1.Node) { n.Labels["l"] = "2" }, true},
		{"an annotation goes", func(n *corev1.Node) { delete(n.Annotations, "a") }, true},
		{"one annotation for another", func(n *corev1.Node) { n.Annotations = map[string]string{"b": "1", "cluster.x-k8s.io/x": "1"} }, true},
		{"the heartbeat of an agent in an annotation", func(n *corev1.Node) { n.Annotations["a"] = "2" }, false},
		{"a mark of Cluster API has another value", func(n *corev1.Node) { n.Annotations["cluster.x-k8s.io/x"] = "2" }, true},
		{"a taint's value", func(n *corev1.Node) { n.Spec.Taints[0].Value = "x" }, true},
		{"a taint goes", func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		{"an address", func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.2" }, true},
		{"not ready", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		{"memory pressure", func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionTrue }, true},
		{"a condition of another component", func(n *corev1.Node) { n.Status.Conditions[2].Status = corev1.ConditionTrue }, true},
		{"a condition goes", func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[:2] }, true},
		{"one condition type for another", func(n *corev1.Node) { n.Status.Conditions[2].Type = "Other" }, true},
		{"the kubelet's version", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.37.0" }, true},
		{"swap", func(n *corev1.Node) { n.Status.NodeInfo.Swap.Capacity = ptr.To[int64](2) }, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			old, changed := fullNode(), fullNode()
			tc.change(changed)
			if got := Significant(old, changed, false); got != tc.want {
				t.Errorf("Significant() = %v, want %v", got, tc.want)
			}
			if got := Significant(changed, old, false); got != tc.want {
				t.Errorf("Significant() the other way = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTheCreationAndDeletionOfANodeAreSignificant(t *testing.T) {
	n := fullNode()
	if !Significant(nil, n, false) || !Significant(n, nil, false) || Significant(nil, nil, false) || Significant(n, n, false) {
		t.Error("only appearing and going are significant")
	}
}

func TestSignificantAllocatesNothing(t *testing.T) {
	a, b := fullNode(), fullNode()
	if n := testing.AllocsPerRun(100, func() { Significant(a, b, false) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestSignificantForWhoJudgesTheStatusOnly(t *testing.T) {
	for _, statusOnly := range []bool{false, true} {
		a, b := fullNode(), fullNode()
		b.Labels["l"], b.Annotations["a"], b.Spec.Taints = "2", "2", nil
		if got := Significant(a, b, statusOnly); got == statusOnly {
			t.Errorf("labels, annotations and taints: %v, want %v", got, !statusOnly)
		}
		b.Spec.Unschedulable = true
		if !Significant(a, b, statusOnly) || !Significant(nil, b, statusOnly) || Significant(nil, nil, statusOnly) {
			t.Error("the rest does not depend on it")
		}
	}
}

func TestReady(t *testing.T) {
	n := fullNode()
	if !Ready(n) {
		t.Error("a Node whose Ready condition is True is ready")
	}
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	if Ready(n) || Ready(nil) || Ready(&corev1.Node{}) {
		t.Error("Unknown, no Node and no condition are not ready")
	}
}
