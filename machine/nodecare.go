package machine

import (
	"fmt"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/noderef"
)

// NodeCare is the decision about the Node of a Machine that is being deleted.
type NodeCare uint8

// Values of NodeCare.
const (
	// CareUnknown: the facts are not known yet. The deletion waits before the drain.
	CareUnknown NodeCare = iota
	// CareDrainAndDelete: the Node is drained, its volumes are waited for, and it is deleted at the end.
	CareDrainAndDelete
	// CareNone: the Node is left as it is, because it is deleted with its cluster or because there is none. Hooks, infrastructure and
	// bootstrap data are processed as usual.
	CareNone
)

// String returns the name of the constant.
func (c NodeCare) String() string {
	switch c {
	case CareUnknown:
		return "CareUnknown"
	case CareDrainAndDelete:
		return "CareDrainAndDelete"
	case CareNone:
		return "CareNone"
	}
	return fmt.Sprintf("NodeCare(%d)", uint8(c))
}

// NodeCareFacts are what NodeCare depends on.
type NodeCareFacts struct {
	// Cluster is the Machine's; zero without Ports.ClusterOf, and Unread also when Ports.ClusterOf failed.
	Cluster external.ClusterView
	// State is the Machine's. It must not be changed.
	State *contract.MachineState
	// Infrastructure is what is known of the infrastructure object.
	Infrastructure external.Object
	// HasNode: a Node was matched, now or before, or may exist and could not be read.
	HasNode bool
}

// CareReason says in words why a NodeCare was decided. An embedder's own policy may have its own reasons.
type CareReason string

// Reasons of DefaultNodeCare.
const (
	CareBecauseNoNode                 CareReason = "the Machine has no Node"
	CareBecauseNoCluster              CareReason = "the Machine belongs to no Cluster"
	CareBecauseClusterGone            CareReason = "the Cluster no longer exists"
	CareBecauseClusterUnread          CareReason = "the Cluster could not be read yet"
	CareBecauseClusterDeleting        CareReason = "the Cluster is being deleted"
	CareBecauseControlPlaneUnread     CareReason = "the control plane could not be read"
	CareBecauseControlPlaneDeleting   CareReason = "the control plane is being deleted"
	CareBecauseControlPlaneExternal   CareReason = "the control plane is managed elsewhere"
	CareBecauseControlPlaneNotCounted CareReason = "the Machines of the control plane could not be counted yet"
	// CareBecauseControlPlaneUncounted: the control plane's Machines may be of a kind that the Reconciler does not know, see
	// ClusterView.ControlPlaneUncounted.
	CareBecauseControlPlaneUncounted CareReason = "the cluster stays: its control plane has no Machines of this kind that could be counted"
	CareBecauseNoControlPlane        CareReason = "no control plane members"
	CareBecauseClusterStays          CareReason = "the cluster stays"
)

// String returns the words.
func (r CareReason) String() string { return string(r) }

// DefaultNodeCare is the decision, with its reason, when Policy.NodeCare is nil. The rule is Cluster API's: a Node is neither drained nor
// deleted when it is deleted with its cluster, or when this deletion leaves the cluster without a control plane. Unlike Cluster API, it
// decides nothing from objects that could not be read or are not counted. The Node of a Machine without a Cluster is drained and deleted.
//
// When the Node is left as it is, pre-drain hooks, drain, volumes and the Node's deletion are skipped. The Machines of a control plane are
// counted when they are of the Cluster's API group, or of this kind; when they are not counted, the Node is drained and deleted unless
// the Cluster is being deleted.
func DefaultNodeCare(f NodeCareFacts) (NodeCare, CareReason) {
	switch {
	case !f.HasNode:
		return CareNone, CareBecauseNoNode
	case f.Cluster.Presence == external.NotReferenced:
		return CareDrainAndDelete, CareBecauseNoCluster
	case f.Cluster.Presence == external.Absent:
		return CareNone, CareBecauseClusterGone
	case f.Cluster.Presence != external.Present:
		return CareUnknown, CareBecauseClusterUnread
	case !f.Cluster.State.Deleting.IsZero():
		return CareNone, CareBecauseClusterDeleting
	}
	return careBesideControlPlane(f.Cluster)
}

// careBesideControlPlane decides in a Cluster that is not being deleted. When its control plane object does not exist there may still be
// control plane Machines, so those are counted then too. Machines that are not counted may exist.
func careBesideControlPlane(view external.ClusterView) (NodeCare, CareReason) {
	plane := view.ControlPlane
	members, known := view.ActiveControlPlaneMachines.Get()
	switch {
	case plane.Presence == external.Unread, plane.Presence == external.Present && plane.Problem != (external.Problem{}):
		return CareUnknown, CareBecauseControlPlaneUnread
	case plane.Deleting(), plane.Presence == external.Present && !view.ControlPlaneState.Deleting.IsZero():
		return CareNone, CareBecauseControlPlaneDeleting
	case plane.Presence == external.Present && view.ControlPlaneState.ExternalManagedControlPlane:
		return CareDrainAndDelete, CareBecauseControlPlaneExternal
	case !known && view.ControlPlaneUncounted:
		return CareDrainAndDelete, CareBecauseControlPlaneUncounted
	case !known:
		return CareUnknown, CareBecauseControlPlaneNotCounted
	case members == 0:
		return CareNone, CareBecauseNoControlPlane
	}
	return CareDrainAndDelete, CareBecauseClusterStays
}

// words joins a reason with what is known about the object that it concerns.
func (f NodeCareFacts) words(reason CareReason) string {
	if plane := f.Cluster.ControlPlane; reason == CareBecauseControlPlaneUnread {
		return fmt.Sprintf("the control plane %s %s could not be read", plane.Ref.Kind, plane.Ref.Name) + because(plane.Problem)
	}
	return reason.String()
}

func because(p external.Problem) string {
	if p.Message == "" {
		return ""
	}
	return ": " + p.Message
}

// care returns the decision about the Node in this pass, and makes it if no step has.
func (s *Scope) care() NodeCare {
	if s.Care != CareUnknown {
		return s.Care
	}
	facts := NodeCareFacts{Cluster: s.Cluster, State: &s.State, Infrastructure: s.Infrastructure, HasNode: s.mayHaveNode()}
	if s.ClusterErr != nil {
		facts.Cluster = external.ClusterView{Presence: external.Unread}
	}
	decide := s.env.options.Policy.NodeCare
	if decide == nil {
		decide = DefaultNodeCare
	}
	care, reason := decide(facts)
	s.Care, s.CareReason = care, facts.words(reason)
	if s.Care == CareUnknown && s.ClusterErr != nil {
		s.CareReason += ": " + s.ClusterErr.Error()
	}
	return s.Care
}

// mayHaveNode reports whether there is a Node, or may be one that could not be looked up. Without an initialized control plane no Node can
// have joined, and a Machine whose infrastructure belongs to another controller has none.
func (s *Scope) mayHaveNode() bool {
	switch {
	case s.Infrastructure.Foreign:
		return false
	case s.State.Node.Name != "":
		return true
	case s.NodesSynced:
		return s.Node.Found() || s.Node.Outcome == noderef.Ambiguous || s.Node.Outcome == noderef.Claimed
	}
	uninitialized := s.Cluster.Presence == external.Present && !s.Cluster.State.ControlPlaneInitialized
	return !uninitialized && (noderef.ValidProviderID(s.State.ProviderID) || s.env.options.Matching.ByName || s.env.options.Matching.ByAddress)
}

// careUnknown waits until the decision about the Node is possible. An event of the Cluster ends the wait.
func (s *Scope) careUnknown() (Result, error) {
	wait := s.Wait(ReasonDeleting, "Waiting to know whether the Node is to be drained: "+s.CareReason)
	wait.RequeueAfter = s.Cluster.ControlPlane.RetryAfter
	return wait, s.ClusterErr
}
