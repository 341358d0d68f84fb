package machine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// lookUpCluster reads the Machine's Cluster. For a Machine that is being deleted, it also reads the Cluster's control plane.
func (s *Scope) lookUpCluster(ctx context.Context) {
	s.ReadCluster(ctx)
	cluster, view := s.ClusterKey(), &s.Cluster
	if s.env.ports.ClusterOf == nil || cluster.Name == "" || !s.Deleting() || s.ClusterErr != nil {
		return
	}
	if !view.ActiveControlPlaneMachines.Found() && !view.ControlPlaneUncounted {
		s.ClusterErr = s.countControlPlane(ctx, cluster)
	}
	unread := view.ControlPlane.Presence == external.NotReferenced && !view.State.ControlPlane.IsZero()
	if s.ClusterErr == nil && view.Presence == external.Present && unread {
		s.ClusterErr = s.readControlPlane(ctx)
	}
}

// readControlPlane reads the object that a Cluster references as its control plane. An object that breaks the contract counts as unread:
// its content decides whether a Node is drained.
func (s *Scope) readControlPlane(ctx context.Context) error {
	view := &s.Cluster
	var err error
	view.ControlPlane, err = s.env.frame.Tracker.Get(ctx, s.State.Key, view.State.ControlPlane)
	if err != nil || view.ControlPlane.Presence != external.Present {
		return err
	}
	if err := contract.LayoutsOf(view.ControlPlane.Contract).ControlPlane.Read(view.ControlPlane.Object, &view.ControlPlaneState); err != nil {
		view.ControlPlaneState = contract.ControlPlaneState{}
		view.ControlPlane.Presence, view.ControlPlane.Problem = external.Unread, external.Problem{
			Reason: external.ReasonContractViolation, Message: err.Error(),
		}
	}
	return nil
}

// coversControlPlane reports whether the Machines in the cache can be a Cluster's whole control plane: they are of the Cluster's API group,
// or the cache has at least one control plane Machine of this kind. Otherwise the control plane may have Machines of another kind, which
// are not in this cache.
func coversControlPlane(own, cluster string, seen int) bool {
	return seen > 0 || own == cluster && own != ""
}

// countControlPlane counts the Machines of a Cluster's control plane that are not being deleted. Nodes are not drained when the count is
// zero, so a count of zero is confirmed with the API server: a cache may be stale, or its label selector may exclude Machines.
func (s *Scope) countControlPlane(ctx context.Context, cluster types.NamespacedName) error {
	view, seen, active := &s.Cluster, 0, 0
	if view.ControlPlaneUncounted = !s.env.indexed; view.ControlPlaneUncounted {
		return nil
	}
	err := s.env.frame.Each(ctx, cluster.Namespace, controlPlaneKey(cluster), func(obj client.Object) {
		seen++
		if isActiveControlPlane(obj) {
			active++
		}
	})
	view.ControlPlaneUncounted = err == nil && !coversControlPlane(s.env.kind.GVK.Group, view.GVK.Group, seen)
	if err != nil || view.ControlPlaneUncounted {
		return err
	}
	if active == 0 && view.Presence == external.Present && view.State.Deleting.IsZero() {
		if active, err = s.liveControlPlane(ctx, cluster); err != nil {
			return err
		}
	}
	view.ActiveControlPlaneMachines = contract.Some(active)
	return nil
}

// liveControlPlane counts the same Machines in a list from the API server. A count of zero is confirmed once for each Machine.
func (s *Scope) liveControlPlane(ctx context.Context, cluster types.NamespacedName) (int, error) {
	gvk := s.env.kind.GVK
	if s.memory.noControlPlane {
		return 0, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := s.env.ports.APIReader.List(ctx, list, client.InNamespace(cluster.Namespace), client.HasLabels{contract.ControlPlaneLabel})
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
	s.memory.noControlPlane = active == 0
	return active, nil
}

func isActiveControlPlane(obj client.Object) bool {
	_, member := obj.GetLabels()[contract.ControlPlaneLabel]
	return member && obj.GetDeletionTimestamp() == nil
}

// controlPlaneChanges passes events of control plane Machines that are created, are deleted, or begin to be deleted.
func controlPlaneChanges() predicate.Predicate {
	changes := predicate.NewPredicateFuncs(isActiveControlPlane)
	changes.UpdateFunc = func(e ctrlevent.UpdateEvent) bool {
		return isActiveControlPlane(e.ObjectOld) != isActiveControlPlane(e.ObjectNew)
	}
	return changes
}

// besideControlPlane maps a control plane Machine to the Machines in its namespace that are being deleted: the Node of the last Machine of
// a Cluster is not drained.
func (r *Reconciler) besideControlPlane(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.frame.ByKey(ctx, obj.GetNamespace(), deletingKey)
}
