package inframachine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/instance"
)

type (
	frame  = engine.Frame[contract.ProvidedMachineState, contract.ProvidedMachineUpdate]
	passes = engine.Reconciler[contract.ProvidedMachineState, contract.ProvidedMachineUpdate, *Scope]
)

// Reconciler reconciles InfraMachines of one kind with a Driver. If you call its method ReconcileObject in a loop of your own, call
// IndexInfraMachines once before the cache starts. Safe for concurrent use.
type Reconciler struct {
	*passes

	frame   *frame
	kinds   Kinds
	ports   engine.Ports
	options Options
	keeper  *instance.Keeper
	indexed bool // see IndexInfraMachines
}

// New returns a Reconciler for the ports of a manager, see pass.PortsFromManager. It reports all errors in its inputs at once, and makes
// no request and no call.
func New(kinds Kinds, ports engine.Ports, options Options) (*Reconciler, error) {
	options = options.withDefaults(kinds.InfraMachine)
	keeper, err := instance.NewKeeper(instance.Options{
		Calls: options.Calls, Backoff: options.Backoff, Poll: options.Poll, Refresh: options.Refresh,
	})
	f, err := engine.NewFrame("infrastructure provider", kinds.InfraMachine, Finalizer, ports, options.Options,
		kinds.validate(), err, checkSteps(options.Steps))
	if err != nil {
		return nil, err
	}
	f.Track("kinds that InfraMachines refer to", func(context.Context, client.Object, client.Object) []reconcile.Request { return nil })
	r := &Reconciler{frame: f, kinds: kinds, ports: ports, options: options, keeper: keeper}
	r.passes = engine.NewReconciler(engine.Kind[contract.ProvidedMachineState, contract.ProvidedMachineUpdate, *Scope]{
		Frame: f, Steps: options.Steps, Begin: func(ctx context.Context, s *Scope) { s.ReadCluster(ctx) }, Flush: flush,
		NewScope: func() *Scope { return &Scope{env: r} },
	})
	return r, nil
}

// IndexInfraMachines registers the index that maps events of Clusters to InfraMachines, and InfraMachines with one provider ID to each
// other.
func (r *Reconciler) IndexInfraMachines(ctx context.Context) error {
	r.indexed = true
	return r.frame.IndexOther(ctx, engine.NewObject(r.kinds.InfraMachine), r.kinds.InfraMachine.GVK.Kind, r.keysOf)
}
