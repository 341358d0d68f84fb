package simulation

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// Manager is what a manager gives its reconcilers. They must not start goroutines or use another clock.
type Manager struct {
	// Ports are the client, the cache and the live reader. The cache lags, and requests go wrong.
	Ports engine.Ports
	// Clock is that of the manager, which may be wrong.
	Clock clock.PassiveClock
	// Workload is the access to the Nodes, with a drainer in histories with Pods.
	Workload machine.Workload
	// Registry takes the metrics of the reconcilers. Report.Seen has the results of their steps.
	Registry prometheus.Registerer
	// Calls are those to the cloud, which go wrong too. An instance that runs gets a Node with its provider ID.
	Calls cloud.Calls
	// Controller are the Options.Controller of a reconciler with Reconciler.AddTo.
	Controller controller.Options

	process *process    // that runs it
	gate    *guard.Gate // that holds sets and deployments; nil holds nothing
}

// Reconciler reconciles the objects of a kind.
type Reconciler struct {
	// Kind is one that the API server serves.
	Kind string
	// Reconcile is called when the sources ask for it; without AddTo, for each object of the kind after each event.
	Reconcile func(context.Context, reconcile.Request) (reconcile.Result, error)
	// AddTo is the method AddToManager of a reconciler. Only the event sources of the controller are started, so that a missing one is
	// found: what no event and no RequeueAfter wakes is not reconciled.
	AddTo func(context.Context, ctrl.Manager) error
}
