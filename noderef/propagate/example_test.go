package propagate_test

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/noderef/propagate"
)

func ExamplePolicy_Diff() {
	policy := propagate.ClusterAPI()
	policy.Labels = append(policy.Labels, regexp.MustCompile(`^example\.com/`))

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "worker-1", UID: "u-1",
		Labels:      map[string]string{"kubernetes.io/hostname": "worker-1"},
		Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0"},
	}}
	send := func(patch propagate.Patch) { // the API server refuses it as a whole if what it tests has changed
		fmt.Println(strings.ReplaceAll(patch.String(), "},{", "},\n{"))
	}
	patch, changed := policy.Diff(node, propagate.Desired{Labels: map[string]string{
		"example.com/team":               "blue",
		"cluster.x-k8s.io/cluster-name":  "not for Nodes",
		"topology.kubernetes.io/anybody": "not for Nodes",
	}})
	fmt.Println(changed)
	send(patch)
	// Output:
	// true
	// [{"op":"test","path":"/metadata/uid","value":"u-1"},
	// {"op":"add","path":"/metadata/labels/example.com~1team","value":"blue"},
	// {"op":"test","path":"/metadata/annotations/cluster.x-k8s.io~1labels-from-machine","value":null},
	// {"op":"add","path":"/metadata/annotations/cluster.x-k8s.io~1labels-from-machine","value":"example.com/team"},
	// {"op":"test","path":"/metadata/annotations/cluster.x-k8s.io~1taints-from-machine","value":null},
	// {"op":"add","path":"/metadata/annotations/cluster.x-k8s.io~1taints-from-machine","value":""}]
}

// The policy of another system is data.
func ExamplePolicy() {
	policy := &propagate.Policy{
		Labels:          []*regexp.Regexp{regexp.MustCompile(`^([^/]*\.)?acme\.example/`)},
		AnnotationMarks: []propagate.Mark{{Key: "acme.example/machine", Value: func(o propagate.Owner) string { return o.Name }}},
		Ledger:          propagate.Ledger{Labels: "acme.example/labels"},
		StartupTaints:   []corev1.Taint{{Key: "acme.example/starting", Effect: corev1.TaintEffectNoExecute}},
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "acme.example/starting", Effect: corev1.TaintEffectNoExecute}}},
	}
	patch, _ := policy.Diff(node, propagate.Desired{
		Labels: map[string]string{"disk.acme.example/kind": "ssd"},
		Owner:  propagate.Owner{Name: "m-1"},
	})
	fmt.Println(strings.ReplaceAll(patch.String(), "},{", "},\n{"))
	// Output:
	// [{"op":"test","path":"/metadata/uid","value":"u"},
	// {"op":"add","path":"/metadata/labels/disk.acme.example~1kind","value":"ssd"},
	// {"op":"test","path":"/metadata/annotations/acme.example~1labels","value":null},
	// {"op":"add","path":"/metadata/annotations/acme.example~1labels","value":"disk.acme.example/kind"},
	// {"op":"add","path":"/metadata/annotations/acme.example~1machine","value":"m-1"},
	// {"op":"test","path":"/spec/taints/0/key","value":"acme.example/starting"},
	// {"op":"test","path":"/spec/taints/0/effect","value":"NoExecute"},
	// {"op":"remove","path":"/spec/taints/0"}]
}
