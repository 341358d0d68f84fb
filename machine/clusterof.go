package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
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
	r.onlookers.add(state.Key, clusterKey(cluster))
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
	r.onlookers.add(machine, crdKey(crd), onlookerKey(crd, types.NamespacedName{Namespace: machine.Namespace, Name: ref.Name}))
	var err error
	if view.ControlPlane, err = r.tracker.Get(ctx, machine, ref); err != nil || view.ControlPlane.Presence != external.Present {
		return err
	}
	if err := contract.ControlPlane(view.ControlPlane.Contract).Read(view.ControlPlane.Object, &view.ControlPlaneState); err != nil {
		view.ControlPlaneState = contract.ControlPlaneState{}
		view.ControlPlane.Presence, view.ControlPlane.Problem = external.Unread, external.Problem{Reason: external.ReasonContractViolation, Message: err.Error()}
	}
	return nil
}

// onlookerKey is the key of a control plane in onlookers.
func onlookerKey(crd string, key types.NamespacedName) string {
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

// ofCluster returns the Machines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, cluster.Namespace, clusterKey(cluster))
}
