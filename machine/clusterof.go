package machine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// clusterView asks for the Cluster of a Machine, and for a Machine in deletion also for the Cluster's control plane.
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
	if !view.ActiveControlPlaneMachines.Found() {
		if view.ActiveControlPlaneMachines, err = r.activeControlPlane(ctx, cluster); err != nil {
			return view, err
		}
	}
	if view.Presence != external.Present || view.ControlPlane.Presence != external.NotReferenced || view.State.ControlPlane.IsZero() {
		return view, nil
	}
	return view, r.controlPlane(ctx, state.Key, &view)
}

// controlPlane reads the object that a Cluster names as its control plane. One that breaks the contract counts as unread: whether
// a Node is drained depends on what it says.
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

// onlookerKey is the place of a control plane, for those who look at it.
func onlookerKey(crd string, key types.NamespacedName) string {
	return "plane:" + crd + "/" + key.String()
}

// activeControlPlane counts the Machines of a Cluster's control plane that are not being deleted; absent without an index.
func (r *Reconciler) activeControlPlane(ctx context.Context, cluster types.NamespacedName) (contract.Opt[int], error) {
	if !r.indexed {
		return contract.Opt[int]{}, nil
	}
	active := 0
	err := r.eachMachine(ctx, cluster.Namespace, controlPlaneKey(cluster), func(obj client.Object) {
		if isActiveControlPlane(obj) {
			active++
		}
	})
	if err != nil {
		return contract.Opt[int]{}, err
	}
	return contract.Some(active), nil
}

func isActiveControlPlane(obj client.Object) bool {
	_, member := obj.GetLabels()[contract.ControlPlaneLabel]
	return member && obj.GetDeletionTimestamp() == nil
}

// ofCluster returns the Machines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, cluster.Namespace, clusterKey(cluster))
}
