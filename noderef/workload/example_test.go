package workload_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// One connection to each workload cluster serves the reconcilers of Machines and of pools: both have the same ports.
func ExampleSetup() {
	_ = func(mgr ctrl.Manager) (func(types.NamespacedName) (workload.Workload, error), error) {
		secrets, err := cluster.SecretsFromManager(mgr)
		if err != nil {
			return nil, err
		}
		clusters, err := cluster.New(cluster.Options[workload.Workload]{Access: secrets, Setup: workload.Setup(noderef.Rules{})})
		if err != nil {
			return nil, err
		}
		return workload.NodesOf(clusters), mgr.Add(clusters)
	}
	// Output:
}

// A controller of your own is woken by the Nodes of its objects, and looks them up in its passes.
func ExampleTracker() {
	ofNode := func(_ context.Context, cluster types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request {
		return nil // the objects of the cluster that these Nodes belong to
	}
	_ = func(ctx context.Context, mgr ctrl.Manager, r reconcile.Reconciler, clusters *cluster.Clusters[workload.Workload]) error {
		own, err := workload.FromManager(ctx, mgr, noderef.Rules{})
		if err != nil {
			return err
		}
		tracker := workload.NewTracker(workload.Config{
			Kind: "MachineHealthCheck", Own: own, NodesOf: workload.NodesOf(clusters), Events: clusters.Source, OfNode: ofNode,
			InCluster: func(ctx context.Context, cluster types.NamespacedName) []reconcile.Request { return nil },
		})
		builder := ctrl.NewControllerManagedBy(mgr).Named("healthcheck")
		for _, events := range tracker.Sources(ctx) {
			builder = builder.WatchesRawSource(events)
		}
		return builder.Complete(r) // its passes call tracker.Of(tracker.ClusterOf(namespace, clusterName))
	}
	// Output:
}
