package propagate_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/noderef/propagate"
)

func ExampleDiff() {
	machineLabels := map[string]string{
		"node-role.kubernetes.io/worker": "",
		"example.com/team":               "not for Nodes",
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "worker-1", UID: "u-1",
		Labels:      map[string]string{"kubernetes.io/hostname": "worker-1"},
		Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0"},
	}}

	desired := propagate.Desired{Labels: propagate.ClusterAPI().SelectLabels(machineLabels)}
	patch, changed := propagate.Diff(node, desired)
	fmt.Println(changed)
	fmt.Println(patch)
	// Output:
	// true
	// [{"op":"test","path":"/metadata/uid","value":"u-1"},{"op":"test","path":"/metadata/labels/node-role.kubernetes.io~1worker","value":null},{"op":"add","path":"/metadata/labels/node-role.kubernetes.io~1worker","value":""},{"op":"test","path":"/metadata/annotations/cluster.x-k8s.io~1labels-from-machine","value":null},{"op":"add","path":"/metadata/annotations/cluster.x-k8s.io~1labels-from-machine","value":"node-role.kubernetes.io/worker"}]
}
