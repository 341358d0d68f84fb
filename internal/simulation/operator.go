package simulation

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
)

// Operator is the program that each manager of a World runs, and what it is asked for.
type Operator struct {
	// Kinds are those of the operator: the API server serves them, and managers cache them.
	Kinds []fake.ServedKind
	// Objects are created at the beginning, and deleted at the end. Objects made by reconcilers must go with them.
	Objects []client.Object
	// SetUp makes the reconcilers of one manager, as a main function does, and registers their indexes. It is called again when the manager
	// has crashed. Reconcilers must not start goroutines or use another clock.
	SetUp func(context.Context, Manager) ([]Reconciler, error)
	// Missing says what is not as desired, empty when all is. It is called when no reconciliation is due and the faults have stopped. Nil:
	// nothing is ever missing. After UserRestores an instance may be gone that a restored object had; the operator, or Missing, allows for it.
	Missing func(*World) string
}

// Manager is what a manager gives its reconcilers.
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
	pools   bool        // the library's reconcilers are those of pools too
}

// Reconciler reconciles the objects of a kind.
type Reconciler struct {
	// Kind is one of Operator.Kinds.
	Kind string
	// Reconcile is called for each object of the kind whenever a cache that the manager has shows a change of anything; with AddTo, when the
	// sources ask for it.
	Reconcile func(context.Context, reconcile.Request) (reconcile.Result, error)
	// AddTo is the method AddToManager of a reconciler, or a function that makes a controller with controller-runtime's builder and gives it
	// Manager.Controller. Only the event sources of the controller are started, so that a missing one is found: what no event and no
	// RequeueAfter wakes is not reconciled. The manager has a cache, a field indexer, a scheme and a logger, and nothing else. Nil: Reconcile
	// is called after each event.
	AddTo func(context.Context, ctrl.Manager) error
}
