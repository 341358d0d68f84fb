package machine

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

// Policy holds the decisions that an embedder can replace one by one. A nil member decides as Cluster API does, unless its comment states
// otherwise. The functions are called in every pass that needs them, from several goroutines, and must not block; they must not keep or
// change their arguments. The Policy must not be changed after New.
//
// # Deletion
//
// The deletion of a Machine has these stages, and the condition Deleting names the current one: pre-drain hooks, drain, volumes,
// pre-terminate hooks, infrastructure, bootstrap data, Node, finalizer. Consecutive stages that need not wait cost one pass and one write.
// Every pass checks the hooks. Drain and volumes are done once, recorded by the Node's UID, and not started again after the wait for
// pre-terminate hooks, because those may shut down the cluster's API server.
//
// A Node that was recorded or matched, and is not drained or not deleted, is always reported by an event with the reason
// (EventNodeNotDrained, EventNodeNotDeleted, or that of the stage whose limit was reached). The progress of a deletion is recorded in
// contract.DeletionAnnotation, and the starts of the drain and of the wait for volumes also in the fields of Cluster API's controller. The
// record of another deletion, from a restored backup, is removed and ignored.
//
// Several Nodes with the provider ID of the Machine belong to one instance, as after a change of its host name: the recorded Node is
// drained, and all Nodes that no other Machine claims are deleted when the instance is gone. If none is recorded, the drain waits for a
// person or for its limit.
//
// A Machine whose Cluster object no longer exists can be deleted: infrastructure, bootstrap data and finalizer are removed, and the Node is
// not touched. A Node that is first matched after the deletion of its instance began is recorded and then deleted like any other.
//
// After the drain, the deletion waits for volumes that are still attached to the Node, according to the VolumeAttachments of the Node's
// cluster and the Node itself; drain.VolumePlanner documents which of them count. The wait ends with the limit in the Machine's spec, with
// the annotation contract.ExcludeVolumeDetach, or when the kubelet has not responded for five minutes.
type Policy struct {
	// DrainRules returns the rules for draining the Node of a Machine and for waiting for its volumes; nil, and a nil result, mean the rules
	// of the Drainer. An error delays the drain and is retried with back-off. A result must not be changed later.
	DrainRules func(context.Context, *Scope) ([]drain.Rule, error)
	// DrainPolicy decides how drains escalate, and what happens to the pods of a Node that does not respond or whose instance is off. Nil:
	// drain.DefaultPolicy, which evicts without a limit; when the kubelet has not responded for five minutes, it reduces grace periods to a
	// second and does not wait for pods that do not end. New validates it.
	DrainPolicy *drain.Policy
}

// nodeCare is the decision about the Node of a Machine that is being deleted.
type nodeCare uint8

const (
	// careUnknown: the facts are not known yet. The deletion waits before the drain.
	careUnknown nodeCare = iota
	// careDrainAndDelete: the Node is drained, its volumes are waited for, and it is deleted at the end.
	careDrainAndDelete
	// careNone: the Node is neither drained nor deleted, because it is deleted with its cluster or because there is none. Hooks,
	// infrastructure and bootstrap data are processed as usual.
	careNone
)

// decideNodeCare returns the decision about the Node, and its reason. hasNode: a Node was matched, now or before, or may exist and could
// not be read. Rule: Cluster API's. A Node is neither drained nor deleted when it is deleted with its cluster, or when this deletion leaves
// the cluster without a control plane. Unlike Cluster API, objects that could not be read or counted decide nothing. The Node of a Machine
// without a Cluster is drained and deleted.
//
// For careNone, pre-drain hooks, drain, volumes and the Node's deletion are skipped. The Machines of a control plane are counted when they
// are of the Cluster's API group, or of this kind; when they are not counted, the Node is drained and deleted unless the Cluster is being
// deleted.
func decideNodeCare(view external.ClusterView, hasNode bool) (nodeCare, string) {
	switch {
	case !hasNode:
		return careNone, "the Machine has no Node"
	case view.Presence == external.NotReferenced:
		return careDrainAndDelete, "the Machine belongs to no Cluster"
	case view.Presence == external.Absent:
		return careNone, "the Cluster no longer exists"
	case view.Presence != external.Present:
		return careUnknown, "the Cluster could not be read yet"
	case !view.State.Deleting.IsZero():
		return careNone, "the Cluster is being deleted"
	}
	return careBesideControlPlane(view)
}

// careBesideControlPlane decides in a Cluster that is not being deleted. Control plane Machines may exist even if the control plane object
// does not, so they are counted then too.
func careBesideControlPlane(view external.ClusterView) (nodeCare, string) {
	plane := view.ControlPlane
	members, known := view.ActiveControlPlaneMachines.Get()
	switch {
	case plane.Presence == external.Unread, plane.Presence == external.Present && plane.Problem != (external.Problem{}):
		return careUnknown, fmt.Sprintf("the control plane %s %s could not be read", plane.Ref.Kind, plane.Ref.Name) + because(plane.Problem)
	case plane.Deleting(), plane.Presence == external.Present && !view.ControlPlaneState.Deleting.IsZero():
		return careNone, "the control plane is being deleted"
	case plane.Presence == external.Present && view.ControlPlaneState.ExternalManagedControlPlane:
		return careDrainAndDelete, "the control plane is managed elsewhere"
	case !known && view.ControlPlaneUncounted: // its Machines may be of another kind
		return careDrainAndDelete, "the cluster stays: its control plane has no Machines of this kind that could be counted"
	case !known:
		return careUnknown, "the Machines of the control plane could not be counted yet"
	case members == 0:
		return careNone, "no control plane members"
	}
	return careDrainAndDelete, "the cluster stays"
}

func because(p external.Problem) string {
	if p.Message == "" {
		return ""
	}
	return ": " + p.Message
}

// decidedCare returns the decision about the Node, which is made once per pass.
func (s *Scope) decidedCare() nodeCare {
	if s.care != careUnknown || s.contested {
		return s.care
	}
	s.care, s.careReason = decideNodeCare(s.clusterOrUnread(), s.mayHaveNode())
	if s.care == careUnknown && s.ClusterErr != nil {
		s.careReason += ": " + s.ClusterErr.Error()
	}
	return s.care
}

// clusterOrUnread returns the Cluster, marked as unread when it could not be read.
func (s *Scope) clusterOrUnread() external.ClusterView {
	if s.ClusterErr != nil {
		return external.ClusterView{Presence: external.Unread}
	}
	return s.Cluster
}

// mayHaveNode reports whether there is a Node, or may be one that could not be read. Without an initialized control plane no Node can have
// joined, and a Machine whose infrastructure belongs to another controller has none. A backup that was restored without status may have
// retained only the UID of the Node, in an annotation.
func (s *Scope) mayHaveNode() bool {
	switch {
	case s.Infrastructure.Foreign:
		return false
	case s.State.Node.Name != "", s.State.Node.UID != "":
		return true
	case s.NodesSynced:
		return s.Node.Found() || s.Node.Outcome == noderef.Ambiguous || s.Node.Outcome == noderef.Claimed
	}
	uninitialized := s.Cluster.Presence == external.Present && !s.Cluster.State.ControlPlaneInitialized
	return !uninitialized && noderef.ValidProviderID(s.State.ProviderID)
}

// waysOut describes what a person can do about a stage that waits for its Node. unread: its Nodes cannot be read.
func (s *Scope) waysOut(stage Stage, unread bool) string {
	way := "; to continue without, " + stage.exits
	if unread && s.ClusterKey().Name != "" {
		way += ", or delete the Cluster"
	}
	return way
}
