package machineset_test

import (
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machineset"
)

// Keep the MachineSets of Cluster API's CRDs in a manager that you already have.
func ExampleSetupWithManager() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := ctrl.SetupSignalHandler()
	kinds, err := machineset.ClusterAPI(contract.V1Beta2)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := machineset.SetupWithManager(ctx, mgr, kinds, machineset.Options{}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}

// Have sets follow their Clusters.
func ExampleNew() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := ctrl.SetupSignalHandler()
	kinds, err := machineset.ClusterAPI(contract.V1Beta2)
	if err != nil {
		log.Fatal(err)
	}
	clusters, err := external.ClustersFromManager(mgr, external.ClusterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ports := machineset.PortsFromManager(mgr)
	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	r, err := machineset.New(kinds, ports, machineset.Options{Recorder: mgr.GetEventRecorder("sets")})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.AddToManager(ctx, mgr); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}
