package external_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// A controller that reads an infrastructure object of any kind and is woken by its events.
func ExampleNewTracker() {
	_ = func(mgr ctrl.Manager) error {
		byName := func(_ context.Context, _, obj client.Object) []reconcile.Request { // use your index of references to obj
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
		}
		tracker := external.NewTracker(mgr.GetCache(), byName, "infrastructure")
		look := func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			ref := contract.Ref{Group: "infrastructure.cluster.x-k8s.io", Kind: "DockerMachine", Name: request.Name}
			found, err := tracker.Get(ctx, request.NamespacedName, ref)
			if err != nil {
				return reconcile.Result{}, err
			}
			if found.Presence == external.Unread { // unknown: wait, and report why
				fmt.Println(found.Problem.Message)
			}
			return reconcile.Result{RequeueAfter: found.RetryAfter}, nil
		}
		return ctrl.NewControllerManagedBy(mgr).Named("onlooker").WatchesRawSource(tracker).Complete(reconcile.Func(look))
	}
	// Output:
}

// Confirm with the API server that an object is gone before you skip something.
func ExampleConfirmAbsent() {
	_ = func(ctx context.Context, mgr ctrl.Manager, found external.Object, key types.NamespacedName) (bool, error) {
		return external.ConfirmAbsent(ctx, mgr.GetAPIReader(), found.GVK, key)
	}
	// Output:
}
