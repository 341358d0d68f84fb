package machine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// ClusterView is what a pass knows of a Machine's Cluster. The zero ClusterView is a Machine without one. It is a value; what it
// refers to may be shared with a cache and must not be changed.
type ClusterView struct {
	// Presence says whether the rest is known. Absent means that the API server itself said so, and Unread that nothing is known:
	// a Cluster that was not read may be paused.
	Presence Presence
	// GVK is the Cluster's kind, for owner references; zero adds none.
	GVK schema.GroupVersionKind
	// State is what the Cluster says; zero unless Present.
	State contract.ClusterState
	// Problem is why the Cluster is Unread; zero unless a person can do something.
	Problem Problem
	// RetryAfter is when to look again at the latest, when no event may come; zero when one will.
	RetryAfter time.Duration
	// ControlPlane is what is known of the object that the Cluster names as its control plane: NotReferenced without one. It is
	// looked for only for a Machine in deletion, by the Reconciler if ClusterOf has not done it.
	ControlPlane External
	// ControlPlaneState is what that object says; zero unless ControlPlane is Present.
	ControlPlaneState contract.ControlPlaneState
	// ActiveControlPlaneMachines is how many Machines of the Cluster's control plane are not being deleted. It is counted only for
	// a Machine in deletion, by the Reconciler if ClusterOf has not done it, and absent while it is not known, which is not
	// none.
	ActiveControlPlaneMachines contract.Opt[int]
}

// clusterView asks for the Cluster of a Machine, and for a Machine in deletion also for the Cluster's control plane.
func (r *Reconciler) clusterView(ctx context.Context, state *contract.MachineState) (ClusterView, error) {
	if r.ports.ClusterOf == nil || state.ClusterName == "" {
		return ClusterView{}, nil
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
	if view.Presence != Present || view.ControlPlane.Presence != NotReferenced || view.State.ControlPlane.IsZero() {
		return view, nil
	}
	return view, r.controlPlane(ctx, state.Key, &view)
}

// controlPlane reads the object that a Cluster names as its control plane. One that breaks the contract counts as unread: whether
// a Node is drained depends on what it says.
func (r *Reconciler) controlPlane(ctx context.Context, machine types.NamespacedName, view *ClusterView) error {
	ref := view.State.ControlPlane
	crd := contract.CRDName(ref.GroupKind())
	r.onlookers.add(machine, crdKey(crd), onlookerKey(crd, types.NamespacedName{Namespace: machine.Namespace, Name: ref.Name}))
	var err error
	if view.ControlPlane, err = r.external(ctx, machine, ref); err != nil || view.ControlPlane.Presence != Present {
		return err
	}
	if err := contract.ControlPlane(view.ControlPlane.Contract).Read(view.ControlPlane.Object, &view.ControlPlaneState); err != nil {
		view.ControlPlaneState = contract.ControlPlaneState{}
		view.ControlPlane.Presence, view.ControlPlane.Problem = Unread, Problem{ReasonContractViolation, err.Error()}
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
