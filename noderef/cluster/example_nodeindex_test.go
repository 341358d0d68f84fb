package cluster_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// A controller that is woken by Nodes.
func ExampleNewNodeIndex() {
	_ = func(ctx context.Context, mgr ctrl.Manager, r reconcile.Reconciler) error {
		nodes, err := cluster.NewNodeIndex(ctx, mgr.GetCache(), noderef.Rules{})
		if err != nil {
			return err
		}
		ownersOf := func(e cluster.NodeEvent) []reconcile.Request {
			var requests []reconcile.Request
			for _, node := range []*corev1.Node{e.Old, e.New} {
				if node != nil {
					requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: node.Name}})
				}
			}
			return requests
		}
		return ctrl.NewControllerManagedBy(mgr).
			Named("machine").
			WatchesRawSource(nodes.Source(ownersOf)).
			Complete(r)
	}
	// Output:
}

// A cluster whose Nodes your operator knows already needs no index of its own.
func ExampleWorkload() {
	of := func(nodes cluster.Nodes, c client.Client) cluster.Workload {
		return cluster.Workload{Nodes: nodes, Client: c}
	}
	fmt.Println(of(nil, nil).Nodes == nil)
	// Output:
	// true
}

func ExampleTrimNode() {
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}: {Transform: cluster.TrimNode},
	}}
	_ = options // ctrl.Options{Cache: options}

	node := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"app"}}}}}
	trimmed, err := cluster.TrimNode(node)
	fmt.Println(len(trimmed.(*corev1.Node).Status.Images), err)
	// Output:
	// 0 <nil>
}
