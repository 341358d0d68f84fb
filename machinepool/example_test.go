package machinepool_test

import (
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machinepool"
)

func Example_embed() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{}) // the manager that you already have
	if err != nil {
		log.Fatal(err)
	}
	ctx := ctrl.SetupSignalHandler()
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := machinepool.SetupWithManager(ctx, mgr, kinds, machinepool.Options{}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}
