package machine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// ClusterView is what a pass knows of a Machine's Cluster. The zero ClusterView is a Machine without one. It is a value; what it
// refers to may be shared with a cache and must not be changed.
type ClusterView struct {
	// Presence says whether the rest is known. Absent means that the API server itself said so, and Unread that nothing is known:
	// a Cluster that was not read may be paused.
	Presence Presence
	// State is what the Cluster says; zero unless Present.
	State contract.ClusterState
	// ControlPlane is what is known of the object that the Cluster names as its control plane: NotReferenced without one.
	ControlPlane External
	// ControlPlaneState is what that object says; zero unless ControlPlane is Present.
	ControlPlaneState contract.ControlPlaneState
	// ActiveControlPlaneMachines is how many Machines of the Cluster's control plane are not being deleted. It is counted for a
	// Machine in deletion only, and absent while it is not known, which is not none.
	ActiveControlPlaneMachines contract.Opt[int]
}

// clusterView asks for the Cluster of a Machine.
func (r *Reconciler) clusterView(ctx context.Context, state *contract.MachineState) (ClusterView, error) {
	if r.ports.ClusterOf == nil || state.ClusterName == "" {
		return ClusterView{}, nil
	}
	return r.ports.ClusterOf(ctx, types.NamespacedName{Namespace: state.Key.Namespace, Name: state.ClusterName})
}

// ofCluster returns the Machines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, cluster.Namespace, clusterKey(cluster))
}
