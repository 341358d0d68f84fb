package deployment_test

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/machineset/deployment"
)

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
