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

// onlookers are the Machines in deletion whose decisions depend on the control plane of their Cluster: on its object, and on how many of
// its Machines are left. They are stored by the keys of those objects, because no Machine references its control plane, and most Machines
// do not depend on it. Losing them costs time only: each pass of a Machine in deletion adds it again. Safe for concurrent use.
type onlookers struct {
	mu   sync.Mutex
	of   map[string]map[types.NamespacedName]struct{}
	seen map[types.NamespacedName]map[string]struct{}
}

func newOnlookers() *onlookers {
	return &onlookers{of: map[string]map[types.NamespacedName]struct{}{}, seen: map[types.NamespacedName]map[string]struct{}{}}
}

// add registers a Machine for the events of the given keys.
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

// forget removes a Machine that is gone.
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

// requests returns the Machines registered for a key.
func (o *onlookers) requests(key string) []reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	requests := make([]reconcile.Request, 0, len(o.of[key]))
	for machine := range o.of[key] {
		requests = append(requests, reconcile.Request{NamespacedName: machine})
	}
	return requests
}

// controlPlaneEvents wakes the Machines in deletion of a Cluster when a Machine of its control plane is created, deleted, or begins to be
// deleted: the Node of the last one is not drained.
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
