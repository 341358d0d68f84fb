package inframachine

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlbuilder "sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// SetupWithManager adds a Reconciler to a manager, before the manager is started. It records events through the manager, and reads no
// Clusters: to follow them, fill the ports and call New and AddToManager. The required rights are PolicyRules.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kinds Kinds, options Options) (*Reconciler, error) {
	return engine.Setup(ctx, mgr, &options.Recorder, options.withDefaults(kinds.InfraMachine).Name, func() (*Reconciler, error) {
		return New(kinds, engine.PortsFromManager(mgr), options)
	})
}

// AddToManager registers the Reconciler as a controller, with its index and its watches. Call it once, before the manager is started.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	return r.frame.AddToManager(ctx, mgr, r, r.IndexInfraMachines, func(b *engine.Builder) {
		b.Watches(engine.NewObject(r.kinds.Machine), handler.EnqueueRequestsFromMapFunc(r.ofMachine),
			ctrlbuilder.WithPredicates(r.machineChanges()))
	})
}

// ofMachine maps an event about a Machine to its InfraMachine.
func (r *Reconciler) ofMachine(_ context.Context, obj client.Object) []reconcile.Request {
	var m contract.MachineState
	if r.kinds.Machine.Adapter.Read(obj, &m) != nil || m.Infrastructure.GroupKind() != r.kinds.InfraMachine.GVK.GroupKind() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: m.Key.Namespace, Name: m.Infrastructure.Name}}}
}

// machineChanges passes the changes of Machines that an InfraMachine waits for: of the bootstrap data, and the deletion.
func (r *Reconciler) machineChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		var old, updated contract.MachineState
		if r.kinds.Machine.Adapter.Read(e.ObjectOld, &old) != nil || r.kinds.Machine.Adapter.Read(e.ObjectNew, &updated) != nil {
			return true
		}
		return old.DataSecretName != updated.DataSecretName || old.Deleting != updated.Deleting || old.Infrastructure != updated.Infrastructure ||
			old.Version != updated.Version || old.WantedFailureDomain != updated.WantedFailureDomain
	}}
}

// Wiring describes the parts of a Reconciler that need rights.
type Wiring struct {
	// InfraMachine and Machine are the resources of the kinds. StatusSubresource is that of the InfraMachine.
	InfraMachine, Machine schema.GroupResource
	StatusSubresource     bool
	// Secrets: Options.UserData is not set, so bootstrap data Secrets are read.
	Secrets bool
	// Clusters: ClusterOf of the ports is the one of external.Clusters.
	Clusters bool
	// Events: Options.Recorder is one of a manager, as with SetupWithManager.
	Events bool
}

// PolicyRules returns the rights that a Reconciler needs, without those of the Driver and of Options.Input:
//
//   - InfraMachines: list, watch and patch, and patch on the status if that is a subresource;
//   - Machines: list and watch; Secrets: get; Clusters: list, watch and get;
//   - Events: create, and patch for a repeated event.
func PolicyRules(w Wiring) []rbacv1.PolicyRule {
	lists := [][]rbacv1.PolicyRule{
		engine.PolicyRules(engine.Wiring{Own: w.InfraMachine, StatusSubresource: w.StatusSubresource, Clusters: w.Clusters, Events: w.Events}),
		{engine.Rule(w.Machine, "list", "watch")},
	}
	if w.Secrets {
		lists = append(lists, []rbacv1.PolicyRule{engine.Rule(schema.GroupResource{Resource: "secrets"}, "get")})
	}
	return contract.MergePolicyRules(lists...)
}
