package machine

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// onlookers are the Machines in deletion that look at the control plane of their Cluster: at its object, and at how many of its
// Machines are left. They are remembered by what they look at, because no Machine names its control plane, and most Machines
// have no business with it. Losing them costs time only: each pass of a Machine in deletion adds it again. Safe for
// concurrent use.
type onlookers struct {
	mu   sync.Mutex
	of   map[string]map[types.NamespacedName]struct{}
	seen map[types.NamespacedName]map[string]struct{}
}

func newOnlookers() *onlookers {
	return &onlookers{of: map[string]map[types.NamespacedName]struct{}{}, seen: map[types.NamespacedName]map[string]struct{}{}}
}

// add has a Machine woken by the events of the given keys.
func (o *onlookers) add(machine types.NamespacedName, keys ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[machine] == nil {
		o.seen[machine] = map[string]struct{}{}
	}
	for _, key := range keys {
		if o.of[key] == nil {
			o.of[key] = map[types.NamespacedName]struct{}{}
		}
		o.of[key][machine], o.seen[machine][key] = struct{}{}, struct{}{}
	}
}

// forget drops a Machine that is gone.
func (o *onlookers) forget(machine types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.seen[machine] {
		delete(o.of[key], machine)
		if len(o.of[key]) == 0 {
			delete(o.of, key)
		}
	}
	delete(o.seen, machine)
}

// requests are the Machines that look at a key.
func (o *onlookers) requests(key string) []reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	requests := make([]reconcile.Request, 0, len(o.of[key]))
	for machine := range o.of[key] {
		requests = append(requests, reconcile.Request{NamespacedName: machine})
	}
	return requests
}

// controlPlaneEvents wake the Machines in deletion of a Cluster when a Machine of its control plane comes, goes, or begins to: the
// last one of them is treated in another way.
func (r *Reconciler) controlPlaneEvents() handler.EventHandler {
	wake := func(obj client.Object, q queue) {
		var state contract.MachineState
		if r.kind.Adapter.Read(obj, &state) != nil {
			return
		}
		for _, request := range r.onlookers.requests(clusterKey(types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName})) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e ctrlevent.CreateEvent, q queue) {
			if isActiveControlPlane(e.Object) {
				wake(e.Object, q)
			}
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.UpdateEvent, q queue) {
			if isActiveControlPlane(e.ObjectOld) != isActiveControlPlane(e.ObjectNew) {
				wake(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.DeleteEvent, q queue) {
			if isActiveControlPlane(e.Object) {
				wake(e.Object, q)
			}
		},
	}
}
