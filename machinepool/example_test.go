package machinepool_test

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
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

// A step of your own stands between the standard ones. Machines and MachineSets take steps in the same way.
func ExampleSteps() {
	quota := machinepool.Step{
		Name: "quota", On: pass.InRunning,
		Run: func(_ context.Context, s *machinepool.Scope) (machinepool.Result, error) {
			if s.State.Replicas.Or(0) <= 100 {
				return machinepool.Result{}, nil
			}
			s.Assert(metav1.Condition{Type: "QuotaGranted", Status: metav1.ConditionFalse, Reason: "TooManyReplicas",
				Message: "At most 100 replicas are allowed"})
			return machinepool.Result{Stop: true}, nil // the steps behind this one do not run
		},
	}
	steps := machinepool.Steps().InsertAfter(machinepool.StepFinalizer, quota)
	for _, s := range steps[:4] {
		fmt.Print(s.Name, " ")
	}
	// Output: paused finalizer quota bootstrap
}
