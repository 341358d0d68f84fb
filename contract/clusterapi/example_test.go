package clusterapi_test

import (
	"log"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract/clusterapi"
)

// Reconcile the objects that the other controllers of a manager read as Cluster API's Go types. MachineSets follow their Clusters.
func Example() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterapi.AddToScheme} {
		if err := add(scheme); err != nil {
			log.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
	if err != nil {
		log.Fatal(err)
	}
	ctx := ctrl.SetupSignalHandler()
	if _, err := machine.SetupWithManager(ctx, mgr, clusterapi.Machine(), machine.Options{}); err != nil {
		log.Fatal(err)
	}
	if _, err := deployment.SetupWithManager(ctx, mgr, clusterapi.Kinds(), deployment.Options{}); err != nil {
		log.Fatal(err)
	}
	clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ports := pass.PortsFromManager(mgr)
	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	sets, err := machineset.New(clusterapi.Kinds(), ports, machineset.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := sets.AddToManager(ctx, mgr); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}

// Pools and health checks of a manager whose scheme has the types. Both look at the Nodes of workload clusters.
func ExampleMachinePools() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := ctrl.SetupSignalHandler()
	if _, err := machinepool.SetupWithManager(ctx, mgr, clusterapi.MachinePools(), machinepool.Options{}); err != nil {
		log.Fatal(err)
	}
	nodes, err := cluster.WorkloadOptions{}.FromManager(ctx, mgr)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := remediation.SetupWithManager(ctx, mgr, clusterapi.Kinds(), nodes, remediation.Options{}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}
