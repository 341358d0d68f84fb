package external

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// ClusterMapper returns whom news of a Cluster concern, by its namespace and name.
type ClusterMapper func(types.NamespacedName) []reconcile.Request

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
	ControlPlane Object
	// ControlPlaneState is what that object says; zero unless ControlPlane is Present.
	ControlPlaneState contract.ControlPlaneState
	// ActiveControlPlaneMachines is how many Machines of the Cluster's control plane are not being deleted. It is counted only for
	// a Machine in deletion, by the Reconciler if ClusterOf has not done it, and absent while it is not known, which is not
	// none.
	ActiveControlPlaneMachines contract.Opt[int]
}
