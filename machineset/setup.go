package machineset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// SetupWithManager adds a Reconciler to a manager, before the manager is started. It reads no Clusters and makes no preflight checks: to
// use them, fill Ports and call New and AddToManager. The error names what is missing. The required rights are PolicyRules.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, kinds Kinds, options Options) (*Reconciler, error) {
	if options.Recorder == nil {
		options.Recorder = mgr.GetEventRecorder(options.frame(kinds.Set).Name)
	}
	r, err := New(kinds, PortsFromManager(mgr), options)
	if err != nil {
		return nil, err
	}
	return r, r.AddToManager(ctx, mgr)
}

// PortsFromManager returns the ports of a manager, without Clusters and preflight checks.
func PortsFromManager(mgr ctrl.Manager) Ports {
	return Ports{Ports: pass.PortsFromManager(mgr)}
}

// AddToManager registers the Reconciler as a controller, with its indexes and its watches. Call it once, before the manager is
// started.
//
// A set is reconciled when its Machines are created, deleted or being deleted, when their labels, annotations, owners or
// Nodes change, and when one of their conditions does. Events of many Machines at once cause one pass.
func (r *Reconciler) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.IndexMachines(ctx); err != nil {
		return err
	}
	builder := r.frame.Controller(ctx, mgr).Watches(pass.NewObject(r.kinds.Machine), r.machineEvents())
	if err := builder.Complete(r); err != nil {
		return fmt.Errorf("controller %s: %w", r.frame.Options.Name, err)
	}
	return nil
}

// gather is how long a set waits for further events of its Machines.
const gather = 100 * time.Millisecond

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// machineEvents enqueues the sets of a Machine.
func (r *Reconciler) machineEvents() handler.EventHandler {
	wake := func(ctx context.Context, q queue, objects ...client.Object) {
		woken := map[reconcile.Request]bool{}
		for _, obj := range objects {
			for _, request := range r.setsOfMachine(ctx, obj) {
				if !woken[request] {
					woken[request] = true
					q.AddAfter(request, gather)
				}
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if r.isRelevant(e.ObjectOld, e.ObjectNew) {
				wake(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
	}
}

// isRelevant reports whether a change of a Machine matters to a set.
func (r *Reconciler) isRelevant(before, now client.Object) bool {
	if before.GetResourceVersion() == now.GetResourceVersion() {
		return false // a resync
	}
	var old, fresh contract.MachineState
	if r.kinds.Machine.Adapter.Read(before, &old) != nil || r.kinds.Machine.Adapter.Read(now, &fresh) != nil {
		return true // the pass reports it
	}
	sameOwner := func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }
	sameCondition := func(a, b metav1.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
	}
	return old.Deleting != fresh.Deleting || old.Generation != fresh.Generation || old.Node != fresh.Node ||
		!maps.Equal(old.Labels, fresh.Labels) || !maps.Equal(old.Annotations, fresh.Annotations) ||
		!slices.EqualFunc(old.OwnerReferences, fresh.OwnerReferences, sameOwner) ||
		!slices.EqualFunc(old.Conditions, fresh.Conditions, sameCondition)
}

// setsOfMachine returns the set that controls a Machine, or those that may adopt it.
func (r *Reconciler) setsOfMachine(ctx context.Context, machine client.Object) []reconcile.Request {
	if metav1.GetControllerOfNoCopy(machine) != nil {
		return r.frame.ControllerOf(machine)
	}
	var requests []reconcile.Request
	_ = r.frame.Each(ctx, machine.GetNamespace(), "", func(obj client.Object) { // fails only when the cache is stopping
		var set contract.MachineSetState
		if !r.frame.MatchesWatchFilter(obj) || r.frame.Read(obj, &set) != nil {
			return
		}
		if selector, err := selectorOf(&set); err == nil && selector.Matches(labels.Set(machine.GetLabels())) {
			requests = append(requests, reconcile.Request{NamespacedName: set.Key})
		}
	})
	return requests
}

// freeKey is the key of Machines without a controller.
const freeKey = "free"

func ownerKey(uid types.UID) string { return "owner:" + string(uid) }

// setKey is the key of Machines that a set of this name controls, whatever its UID.
func setKey(name string) string { return "set:" + name }

// IndexMachines registers the indexes of Machines and sets with the cache. AddToManager calls it. If you call ReconcileObject from your
// own loop, call it once, before the cache starts.
func (r *Reconciler) IndexMachines(ctx context.Context) error {
	err := r.frame.IndexOther(ctx, pass.NewObject(r.kinds.Machine), r.kinds.Machine.GVK.Kind, func(obj client.Object) []string {
		owner := metav1.GetControllerOfNoCopy(obj)
		switch {
		case owner == nil:
			return []string{freeKey}
		case len(r.frame.ControllerOf(obj)) > 0:
			return []string{ownerKey(owner.UID), setKey(owner.Name)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.frame.Index(ctx, func(set *contract.MachineSetState) []string {
		cluster := types.NamespacedName{Namespace: set.Key.Namespace, Name: set.ClusterName}
		return pass.ReferenceKeys(cluster, set.Template.Bootstrap, set.Template.Infrastructure)
	})
}
