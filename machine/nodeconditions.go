package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// nodeConditions returns NodeReady and NodeHealthy from what the pass has read, and none if the stored ones must not change. Rule: Cluster
// API's setNodeHealthyAndReadyConditions.
func (s *Scope) nodeConditions() []metav1.Condition {
	switch message := s.waitsForCluster(); {
	case message != "":
		return bothOfNode(metav1.ConditionUnknown, contract.ReasonInspectionFailed, message)
	case !s.NodesSynced:
		return s.nodesUnread()
	case s.Node.Node != nil:
		return []metav1.Condition{nodeReady(s.Node.Node), nodeHealthy(s.Node.Node)}
	}
	return bothOfNode(s.withoutNode())
}

// waitsForCluster returns what the Cluster lacks before a Node can join, empty when it lacks nothing. For a Machine in deletion with a
// known Node it is empty, because the conditions report that Node.
func (s *Scope) waitsForCluster() string {
	switch {
	case s.Cluster.Presence != external.Present, s.Deleting() && (s.Node.Node != nil || s.State.Node.Name != ""):
	case !s.Cluster.State.InfrastructureProvisioned:
		return "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
	case !s.Cluster.State.ControlPlaneInitialized:
		return "Waiting for Cluster control plane to be initialized"
	}
	return ""
}

// bothOfNode returns NodeReady and NodeHealthy with the same status, reason and message.
func bothOfNode(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{
		engine.Condition(contract.ConditionNodeReady, status, reason, message), engine.Condition(ConditionNodeHealthy, status, reason, message),
	}
}

// withoutNode returns the status, reason and message of both conditions of a Machine without a Node.
func (s *Scope) withoutNode() (metav1.ConditionStatus, string, string) {
	id, node := s.State.ProviderID, s.State.Node.Name
	switch outcome := s.Node.Outcome; {
	case outcome == noderef.NoProviderID && (s.disowned() || !s.Deleting() && node == ""):
		return metav1.ConditionUnknown, contract.ReasonInspectionFailed, fmt.Sprintf("Waiting for %s to report spec.providerID",
			cmp.Or(s.State.Infrastructure.Kind, "the machine"))
	case outcome == noderef.Ambiguous:
		return metav1.ConditionUnknown, contract.ReasonAmbiguousNode, s.nodeDoubt()
	case outcome == noderef.Claimed:
		return metav1.ConditionUnknown, contract.ReasonNodeClaimed, s.nodeDoubt()
	case outcome == noderef.Stale:
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf(
			"Node %s is another machine's and is not touched: its spec.providerID is %q, this Machine's is %q: "+
				"correct that if it is wrong, or wait for a Node that has it",
			node, s.Node.Other.Spec.ProviderID, id)
	case s.Deleting() && node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted", node)
	case s.Deleting():
		return metav1.ConditionUnknown, ReasonNodeDoesNotExist, "Node does not exist"
	case node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted while the Machine still exists", node)
	default:
		return metav1.ConditionUnknown, contract.ReasonInspectionFailed,
			fmt.Sprintf("Waiting for a Node with spec.providerID %s to exist", id)
	}
}

// claimed describes which Machines claim one Node, and how to fix it.
func claimed(m noderef.Match, state *contract.MachineState) string {
	others := make([]string, 0, len(m.Rivals))
	for _, c := range m.Rivals {
		others = append(others, c.Machine.String())
	}
	return fmt.Sprintf("Node %s is not touched until it is clear whose it is: Machine %s and this Machine %s both have spec.providerID %q: "+
		"correct or delete those that are wrong", m.Other.Name, engine.Named(others), state.Key, m.Other.Spec.ProviderID)
}

// ambiguous describes which Nodes have the same provider ID, and how to fix it.
func ambiguous(m noderef.Match, id string) string {
	names := make([]string, 0, len(m.Candidates))
	for _, node := range m.Candidates {
		names = append(names, node.Name)
	}
	return fmt.Sprintf("several Nodes have spec.providerID %s: %s; delete those that are not this machine's", id, engine.Named(names))
}

// nodeReady returns the condition NodeReady from the Ready condition of a Node.
func nodeReady(node *corev1.Node) metav1.Condition {
	found := conditionOf(node, corev1.NodeReady)
	reason := ReasonNodeReadyUnknown
	switch found.Status {
	case corev1.ConditionTrue:
		reason, found.Message = ReasonNodeReady, ""
	case corev1.ConditionFalse:
		reason = ReasonNodeNotReady
	case corev1.ConditionUnknown:
	default:
		found = corev1.NodeCondition{Status: corev1.ConditionUnknown, Message: notReported}
	}
	if found.Message != "" {
		found.Message = "* Node.Ready: " + found.Message
	}
	ready := engine.Condition(contract.ConditionNodeReady, metav1.ConditionStatus(found.Status), reason, found.Message)
	ready.LastTransitionTime = found.LastTransitionTime
	return ready
}

// healthyNode are the statuses that NodeHealthy requires of a Node. Rule: Cluster API's NodeHealthy.
var healthyNode = []corev1.NodeCondition{ //nolint:gochecknoglobals // an immutable table
	{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
	{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
	{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
	{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
}

// nodeHealthy summarizes the conditions of a Node that are in healthyNode.
func nodeHealthy(node *corev1.Node) metav1.Condition {
	var lines []string
	bad := false
	for _, healthy := range healthyNode {
		found := conditionOf(node, healthy.Type)
		if found.Status == healthy.Status {
			continue
		}
		bad = bad || found.Status == corev1.ConditionTrue || found.Status == corev1.ConditionFalse
		lines = append(lines, fmt.Sprintf("* Node.%s: %s", found.Type, finding(found)))
	}
	message := strings.Join(lines, "\n")
	switch {
	case bad:
		return engine.Condition(ConditionNodeHealthy, metav1.ConditionFalse, ReasonNodeNotHealthy, message)
	case len(lines) > 0:
		return engine.Condition(ConditionNodeHealthy, metav1.ConditionUnknown, ReasonNodeHealthUnknown, message)
	}
	return engine.Condition(ConditionNodeHealthy, metav1.ConditionTrue, ReasonNodeHealthy, "")
}

// conditionOf returns a condition of a Node, with an empty status if the Node does not have it.
func conditionOf(node *corev1.Node, t corev1.NodeConditionType) corev1.NodeCondition {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
	if at < 0 {
		return corev1.NodeCondition{Type: t}
	}
	return node.Status.Conditions[at]
}

// finding describes a condition of a Node that does not have its expected status.
func finding(f corev1.NodeCondition) string {
	switch {
	case f.Status == "":
		return notReported
	case f.Message == "":
		return fmt.Sprintf("Condition is %s", f.Status)
	}
	return f.Message
}

// unread returns why the Nodes could not be read.
func (s *Scope) unread() string { return cluster.Unread(s.cluster, s.NodesErr) }

// nodesUnread returns the conditions of a Machine whose Nodes could not be read; keepUnread may restore the stored ones.
func (s *Scope) nodesUnread() []metav1.Condition {
	switch {
	case errors.Is(s.NodesErr, cluster.ErrNotConnected):
		return bothOfNode(metav1.ConditionUnknown, contract.ReasonConnectionDown, s.unread())
	case s.NodesErr != nil && !cluster.IsUnread(s.NodesErr):
		return bothOfNode(metav1.ConditionUnknown, contract.ReasonInternalError, engine.SeeLogs)
	}
	return bothOfNode(metav1.ConditionUnknown, contract.ReasonInspectionFailed, s.unread())
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// isUnreadYet reports whether an object is unread for a reason that a person cannot fix.
func isUnreadYet(e external.Object) bool {
	reason := e.Problem.Reason
	return e.Presence == external.Unread && (reason == "" || reason == external.ReasonCacheNotSynced)
}

// keepUnread restores the conditions of Nodes and referenced objects that this pass could not read, for Options.ConnectionGrace after the
// first such pass.
func (s *Scope) keepUnread() {
	s.SpareUnread(func(c metav1.Condition) bool {
		switch c.Type {
		case contract.ConditionBootstrapConfigReady:
			return isUnreadYet(s.Bootstrap)
		case contract.ConditionInfrastructureReady:
			return isUnreadYet(s.Infrastructure)
		case contract.ConditionNodeReady, ConditionNodeHealthy:
			return !s.NodesSynced && c.Status == metav1.ConditionUnknown
		}
		return false
	}, &s.memory.unreadSince, s.env.options.ConnectionGrace)
}
