package deployment_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// Roll the MachineDeployments of Cluster API's CRDs out in a manager that you already have.
func ExampleSetupWithManager() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := ctrl.SetupSignalHandler()
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := deployment.SetupWithManager(ctx, mgr, kinds, deployment.Options{}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}

// Put a step of your own into a deployment, in the same way as into a Machine: here, one that lets nothing roll out on a Friday.
func ExampleSteps() {
	friday := deployment.Step{Name: "friday", On: pass.InRunning, Run: func(_ context.Context, s *deployment.Scope) (pass.Result, error) {
		if s.Now.Weekday() == 5 {
			s.Hold("Friday", "nothing is rolled out on a Friday")
		}
		return pass.Result{}, nil
	}}
	steps := deployment.Steps().InsertBefore(deployment.StepSync, friday)
	fmt.Println(len(steps))
	// Output: 13
}

// Go back to the revision before, as kubectl rollout undo does for Deployments.
func ExampleCommands_Undo() {
	var c client.Client // your own
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	if err != nil {
		log.Fatal(err)
	}
	commands := deployment.Commands{Client: c, Kinds: kinds}
	if _, err := commands.Undo(context.TODO(), types.NamespacedName{Namespace: "default", Name: "workers"}, 0); err != nil {
		log.Fatal(err)
	}
}

// Run the reconciler in a controller of your own, which decides what is reconciled when.
func ExampleReconciler() {
	_ = func(r *deployment.Reconciler, mine func(reconcile.Request) bool) reconcile.Func {
		return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			if !mine(request) {
				return reconcile.Result{}, nil
			}
			return r.Reconcile(ctx, request)
		}
	}
	// Output:
}
