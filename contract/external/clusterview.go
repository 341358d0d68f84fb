package external

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// ControlPlaneUncounted: those Machines cannot be counted, because they may be of another kind than the Machine, or there is no index.
	// Then ActiveControlPlaneMachines stays absent, and nothing is concluded from it.
	ControlPlaneUncounted bool
}

// Stays reports whether the Cluster can become an owner: the API server itself says that it exists, is the one that was read, and is
// not being deleted; one request, none when the view says enough. A Cluster that is deleted with --cascade=orphan lets go of what it
// owns, and an object that was owned by it again would be collected with the Cluster. The reader must not read a cache. Rule: Kubernetes'
// controllers ask again before they adopt (RecheckDeletionTimestamp).
func (v ClusterView) Stays(ctx context.Context, reader client.Reader) (bool, error) {
	if v.Presence != Present || v.GVK.Empty() || v.State.UID == "" || !v.State.Deleting.IsZero() {
		return false, nil
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(v.GVK)
	err := reader.Get(ctx, v.State.Key, obj)
	switch {
	case SaysGone(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("make sure that %s %s stays: %w", v.GVK.Kind, v.State.Key, err)
	}
	return obj.UID == v.State.UID && obj.DeletionTimestamp == nil, nil
}
