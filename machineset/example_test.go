package machineset_test

import (
	"context"
	"fmt"
	"log"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset"
)

// Keep the MachineSets of Cluster API's CRDs in a manager that you already have.
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
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	if err != nil {
		log.Fatal(err)
	}
	clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ports := pass.PortsFromManager(mgr)
	ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	r, err := machineset.New(kinds, ports, machineset.Options{Options: pass.Options{Recorder: mgr.GetEventRecorder("sets")}})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.AddToManager(ctx, mgr); err != nil {
		log.Fatal(err)
	}
	log.Fatal(mgr.Start(ctx))
}

// Put a step of your own into a set, in the same way as into a Machine: here, one that keeps a set from creating.
func ExampleSteps() {
	steps := machineset.Steps().InsertBefore(machineset.StepScale, machineset.Step{
		Name: "quota", On: pass.InRunning, Run: func(_ context.Context, s *machineset.Scope) (machineset.Result, error) {
			if machines, _ := s.Machines(); s.State.Annotations["example.com/quota"] == fmt.Sprint(len(machines)) {
				s.Hold("QuotaExceeded", "the quota of the team is used up") // the condition ScalingUp says so
			}
			return machineset.Result{}, nil
		},
	})
	for _, step := range steps { // machineset.Options{Steps: steps}
		fmt.Println(step.Name)
	}
	// Output:
	// paused
	// finalizer
	// machines
	// templates
	// holds
	// sync
	// quota
	// scale
	// remediate
	// remove-finalizer
	// status
}

// Run the reconciler in a controller of your own, which decides what is reconciled when.
func ExampleReconciler() {
	_ = func(r *machineset.Reconciler, mine func(reconcile.Request) bool) reconcile.Func {
		return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			if !mine(request) {
				return reconcile.Result{}, nil
			}
			return r.Reconcile(ctx, request)
		}
	}
	// Output:
}
