package machine

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
)

// clusterView returns the Cluster of a Machine, and for a Machine in deletion also the Cluster's control plane.
func (r *Reconciler) clusterView(ctx context.Context, state *contract.MachineState) (external.ClusterView, error) {
	if r.ports.ClusterOf == nil || state.ClusterName == "" {
		return external.ClusterView{}, nil
	}
	cluster := types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName}
	view, err := r.ports.ClusterOf(ctx, cluster)
	if err != nil || state.Deleting.IsZero() {
		return view, err
	}
	r.dependents.add(state.Key, pass.ClusterKey(cluster))
	if !view.ActiveControlPlaneMachines.Found() && !view.ControlPlaneUncounted {
		if err := r.countControlPlane(ctx, state, cluster, &view); err != nil {
			return view, err
		}
	}
	if view.Presence != external.Present || view.ControlPlane.Presence != external.NotReferenced || view.State.ControlPlane.IsZero() {
		return view, nil
	}
	return view, r.controlPlane(ctx, state.Key, &view)
}

// controlPlane reads the object that a Cluster references as its control plane. An object that breaks the contract counts as unread: its
// content decides whether a Node is drained.
func (r *Reconciler) controlPlane(ctx context.Context, machine types.NamespacedName, view *external.ClusterView) error {
	ref := view.State.ControlPlane
	crd := contract.CRDName(ref.GroupKind())
	r.dependents.add(machine, pass.CRDKey(crd), controlPlaneObjectKey(crd, types.NamespacedName{Namespace: machine.Namespace, Name: ref.Name}))
	var err error
	if view.ControlPlane, err = r.frame.Tracker.Get(ctx, machine, ref); err != nil || view.ControlPlane.Presence != external.Present {
		return err
	}
	if err := contract.ControlPlane(view.ControlPlane.Contract).Read(view.ControlPlane.Object, &view.ControlPlaneState); err != nil {
		view.ControlPlaneState = contract.ControlPlaneState{}
		view.ControlPlane.Presence, view.ControlPlane.Problem = external.Unread, contractViolation(err)
	}
	return nil
}

// controlPlaneObjectKey is the key of a control plane in dependents.
func controlPlaneObjectKey(crd string, key types.NamespacedName) string {
	return "plane:" + crd + "/" + key.String()
}

// members are the Machines of a Cluster's control plane, as far as they are known.
type members struct {
	// Own and Cluster are the API groups of the Machines that are counted, and of the Cluster.
	Own, Cluster string
	// Indexed is true when the cache has an index for them.
	Indexed bool
	// Seen is how many the cache has, Active how many of those are not being deleted.
	Seen, Active int
}

// counted reports whether the count covers the Cluster's control plane: its Machines are of the Cluster's own API group, or the cache has
// at least one of this kind. No cache here holds Machines of another kind; that does not mean that there are none.
func (m members) counted() bool {
	return m.Indexed && (m.Seen > 0 || (m.Own == m.Cluster && m.Own != ""))
}

// countControlPlane counts the Machines of a Cluster's control plane that are not being deleted. A count of zero means that Nodes are not
// drained, so the API server is asked to confirm it: a cache may be stale, or its label selector may leave Machines out.
func (r *Reconciler) countControlPlane(
	ctx context.Context, state *contract.MachineState, cluster types.NamespacedName, view *external.ClusterView,
) error {
	m := members{Own: r.kind.GVK.Group, Cluster: view.GVK.Group, Indexed: r.indexed}
	if m.Indexed {
		err := r.eachMachine(ctx, cluster.Namespace, controlPlaneKey(cluster), func(obj client.Object) {
			m.Seen++
			if isActiveControlPlane(obj) {
				m.Active++
			}
		})
		if err != nil {
			return err
		}
	}
	if view.ControlPlaneUncounted = !m.counted(); view.ControlPlaneUncounted {
		return nil
	}
	if m.Active == 0 && view.Presence == external.Present && view.State.Deleting.IsZero() {
		var err error
		if m.Active, err = r.liveControlPlane(ctx, state, cluster); err != nil {
			return err
		}
	}
	view.ActiveControlPlaneMachines = contract.Some(m.Active)
	return nil
}

// liveControlPlane counts them in a list from the API server. A count of zero is confirmed once for each Machine.
func (r *Reconciler) liveControlPlane(ctx context.Context, state *contract.MachineState, cluster types.NamespacedName) (int, error) {
	none := goneObject{gvk: r.kind.GVK, name: types.NamespacedName{Namespace: cluster.Namespace, Name: controlPlaneKey(cluster)}}
	if r.memory.isGone(state, none) {
		return 0, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(r.kind.GVK.GroupVersion().WithKind(r.kind.GVK.Kind + "List"))
	err := r.ports.APIReader.List(ctx, list, client.InNamespace(cluster.Namespace), client.HasLabels{contract.ControlPlaneLabel})
	if err != nil {
		return 0, fmt.Errorf("count the Machines of the control plane of Cluster %s: %w", cluster, err)
	}
	active := 0
	for i := range list.Items {
		name, labelled := list.Items[i].Labels[contract.ClusterNameLabel]
		if list.Items[i].DeletionTimestamp == nil && (name == cluster.Name || !labelled) {
			active++
		}
	}
	if active == 0 {
		r.memory.setGone(state, none)
	}
	return active, nil
}

func isActiveControlPlane(obj client.Object) bool {
	_, member := obj.GetLabels()[contract.ControlPlaneLabel]
	return member && obj.GetDeletionTimestamp() == nil
}

// dependents are the Machines in deletion whose decisions depend on the control plane of their Cluster: on its object, and on how many of
// its Machines are left. They are stored by the keys of those objects, because no Machine references its control plane, and most Machines
// do not depend on it. Losing them costs time only: each pass of a Machine in deletion adds it again. Safe for concurrent use.
type dependents struct {
	mu   sync.Mutex
	of   map[string]map[types.NamespacedName]struct{}
	seen map[types.NamespacedName]map[string]struct{}
}

func newDependents() *dependents {
	return &dependents{of: map[string]map[types.NamespacedName]struct{}{}, seen: map[types.NamespacedName]map[string]struct{}{}}
}

// add registers a Machine for the events of the given keys.
func (o *dependents) add(machine types.NamespacedName, keys ...string) {
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
func (o *dependents) forget(machine types.NamespacedName) {
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
func (o *dependents) requests(key string) []reconcile.Request {
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
	wake := func(before, after bool, obj client.Object, q queue) {
		var state contract.MachineState
		if before == after || r.kind.Adapter.Read(obj, &state) != nil {
			return
		}
		for _, request := range r.dependents.requests(
			pass.ClusterKey(types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName})) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e ctrlevent.CreateEvent, q queue) {
			wake(false, isActiveControlPlane(e.Object), e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e ctrlevent.UpdateEvent, q queue) {
			wake(isActiveControlPlane(e.ObjectOld), isActiveControlPlane(e.ObjectNew), e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e ctrlevent.DeleteEvent, q queue) {
			wake(isActiveControlPlane(e.Object), false, e.Object, q)
		},
	}
}
