package machinepool_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// A Node that cluster-autoscaler is about to take away is drained by its pool.
func ExamplePolicy() {
	policy := machinepool.Policy{Leaving: func(node *corev1.Node) bool {
		for _, taint := range node.Spec.Taints {
			if taint.Key == "ToBeDeletedByClusterAutoscaler" {
				return true
			}
		}
		return scale.Marked(node.Annotations)
	}}
	marked := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{scale.DeleteAnnotation: ""}}}
	tainted := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}}}
	fmt.Println(policy.Leaving(marked), policy.Leaving(tainted), policy.Leaving(&corev1.Node{}))
	// Output: true true false
}

// Pools follow their Cluster objects, and share Nodes and drains with whoever leads Machines.
func ExampleNew() {
	_ = func(ctx context.Context, mgr ctrl.Manager, workload cluster.Workload) error {
		kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
		if err != nil {
			return err
		}
		clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
		if err != nil {
			return err
		}
		ports := pass.PortsFromManager(mgr)
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
		r, err := machinepool.New(kinds, machinepool.Ports{Ports: ports, Workload: workload},
			machinepool.Options{Options: pass.Options{Recorder: mgr.GetEventRecorder("machinepool")}})
		if err != nil {
			return err
		}
		return r.AddToManager(ctx, mgr)
	}
	// Output:
}
