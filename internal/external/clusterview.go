package external

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// ClusterMapper returns the requests to enqueue for an event of a Cluster, by its namespace and name.
type ClusterMapper func(types.NamespacedName) []reconcile.Request

// ClusterView is what a pass knows about the Cluster of a Machine. The zero ClusterView is a Machine without a Cluster.
// It is a value; the objects that it refers to may be shared with a cache and must not be changed.
type ClusterView struct {
	// Presence tells whether the other fields are known. Absent means that the API server said so. Unread means that
	// nothing is known: the Cluster may be paused.
	Presence Presence
	// GVK is the Cluster's kind, for owner references; with the zero value none is added.
	GVK schema.GroupVersionKind
	// State is the content of the Cluster; zero unless Present.
	State contract.ClusterState
	// Problem is why the Cluster is Unread; zero if a person can do nothing.
	Problem Problem
	// RetryAfter is when to look again if no event may come; zero if one will come.
	RetryAfter time.Duration
	// ControlPlane is what is known about the object that the Cluster references as its control plane: NotReferenced
	// without one. It is read only for a Machine in deletion, by the Reconciler if ClusterOf has not read it.
	ControlPlane Object
	// ControlPlaneState is the content of that object; zero unless ControlPlane is Present.
	ControlPlaneState contract.ControlPlaneState
	// ActiveControlPlaneMachines is the number of control plane Machines of the Cluster that are not being deleted. It
	// is counted only for a Machine in deletion, by the Reconciler if ClusterOf has not counted it. Absent means
	// unknown, not zero.
	ActiveControlPlaneMachines contract.Opt[int]
	// ControlPlaneUncounted means that those Machines cannot be counted, because they may have another kind than the
	// Machine, or because there is no index. Then ActiveControlPlaneMachines stays absent, and no decision uses it.
	ControlPlaneUncounted bool
}

// Stays reports whether the Cluster may become an owner: it exists, has the UID that was read, and is not being
// deleted. It asks the API server with one request, or none if the view is enough. A Cluster that is deleted with
// --cascade=orphan releases its dependents; a dependent that becomes owned again would be garbage collected with it.
// The reader must not read a cache. Rule: Kubernetes' controllers check again before they adopt
// (RecheckDeletionTimestamp).
func (v ClusterView) Stays(ctx context.Context, reader client.Reader) (bool, error) {
	if v.Presence != Present || v.GVK.Empty() || v.State.UID == "" || !v.State.Deleting.IsZero() {
		return false, nil
	}
	return ConfirmKept(ctx, reader, v.GVK, v.State.Key, v.State.UID)
}
