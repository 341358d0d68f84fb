package machineset

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// SetupWithManager adds a Reconciler to a manager, before the manager is started. It reads no Clusters and makes no preflight checks: to
// use them, fill the ports of pass.PortsFromManager, and call New and AddToManager. The error names missing parts. The required rights are
// PolicyRules.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kinds contract.Kinds, options Options) (*Reconciler, error) {
	options.Options = engine.WithDefaults(options.Options, kinds.Set.GVK.Kind)
	return engine.Setup(ctx, mgr, &options.Recorder, options.Name, func() (*Reconciler, error) {
		return New(kinds, engine.PortsFromManager(mgr), options)
	})
}

// AddToManager registers the Reconciler as a controller, with its indexes and its watches. Call it once, before the manager is started.
//
// A set is reconciled when its Machines are created or deleted, or begin to be deleted, and when their labels, annotations, owners, Nodes
// or conditions change. Events of many Machines at once cause one pass.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	return r.frame.AddToManager(ctx, mgr, r, r.IndexMachines, r.machines.Watch)
}

// IndexMachines registers the indexes of Machines and sets with the cache. AddToManager calls it. If you call ReconcileObject from your
// own loop, call it once, before the cache starts.
func (r *Reconciler) IndexMachines(ctx context.Context) error {
	if err := r.machines.Index(ctx); err != nil {
		return err
	}
	return r.frame.Index(ctx, func(set *contract.MachineSetState) []string {
		return engine.ReferenceKeys(contract.CommonOf(set), set.Template.Bootstrap, set.Template.Infrastructure)
	})
}
