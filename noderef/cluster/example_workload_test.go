package cluster_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/noderef/cluster"
)

// One connection to each workload cluster serves the reconcilers of Machines and of pools: both have the same ports.
func ExampleWorkloadOptions_Setup() {
	_ = func(mgr ctrl.Manager) (func(types.NamespacedName) (cluster.Workload, error), error) {
		secrets, err := cluster.SecretsFromManager(mgr)
		if err != nil {
			return nil, err
		}
		clusters, err := cluster.New(cluster.Options[cluster.Workload]{Access: secrets, Setup: cluster.WorkloadOptions{}.Setup()})
		if err != nil {
			return nil, err
		}
		return cluster.NodesOf(clusters), mgr.Add(clusters)
	}
	// Output:
}

// A controller of your own is woken by the Nodes of its objects, and looks them up in its passes.
func ExampleTracker() {
	ofNode := func(_ context.Context, cluster types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request {
		return nil // the objects of the cluster that these Nodes belong to
	}
	_ = func(ctx context.Context, mgr ctrl.Manager, r reconcile.Reconciler, clusters *cluster.Clusters[cluster.Workload]) error {
		own, err := cluster.WorkloadOptions{}.FromManager(ctx, mgr)
		if err != nil {
			return err
		}
		tracker := cluster.NewTracker(cluster.TrackerConfig{
			Kind: "MachineHealthCheck", Own: own, NodesOf: cluster.NodesOf(clusters), Events: clusters.Source, OfNode: ofNode,
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
