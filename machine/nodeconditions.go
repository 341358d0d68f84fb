package machine

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

// nodeFacts are the inputs of decideNode.
type nodeFacts struct {
	Synced bool
	Match  noderef.Match
	State  *contract.MachineState
	// Disowned: the recorded Node exists, and the Machine has no provider ID that would match it.
	Disowned bool
	// Cluster is what is known about the Machine's Cluster; zero without Ports.ClusterOf.
	Cluster external.ClusterView
	// Health defines a healthy Node; nil asks for what Cluster API does.
	Health *noderef.HealthRules
}

// decideNode returns NodeReady and NodeHealthy. It returns none when the Nodes could not be read: then the stored conditions stay. Rule:
// Cluster API's setNodeHealthyAndReadyConditions.
func decideNode(f nodeFacts) []metav1.Condition {
	if message := f.waitsForCluster(); message != "" {
		return bothOfNode(metav1.ConditionUnknown, contract.ReasonInspectionFailed, message)
	}
	if !f.Synced {
		return nil
	}
	if f.Match.Node != nil {
		rules := noderef.ClusterAPIHealth()
		if f.Health != nil {
			rules = *f.Health
		}
		return []metav1.Condition{nodeReady(f.Match.Node), nodeHealthy(f.Match.Node, rules)}
	}
	return bothOfNode(withoutNode(f))
}

// waitsForCluster returns what the Cluster still lacks before a Node can join, empty when it lacks nothing. The conditions of a Machine in
// deletion with a known Node are about that Node: the Cluster may be deleted too.
func (f nodeFacts) waitsForCluster() string {
	if f.Cluster.Presence != external.Present {
		return ""
	}
	if !f.State.Deleting.IsZero() && (f.Match.Node != nil || f.State.Node.Name != "") {
		return ""
	}
	switch {
	case !f.Cluster.State.InfrastructureProvisioned:
		return "Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
	case !f.Cluster.State.ControlPlaneInitialized:
		return "Waiting for Cluster control plane to be initialized"
	}
	return ""
}

// bothOfNode sets NodeReady and NodeHealthy to the same status, reason and message.
func bothOfNode(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{
		engine.Condition(contract.ConditionNodeReady, status, reason, message), engine.Condition(ConditionNodeHealthy, status, reason, message),
	}
}

func withoutNode(f nodeFacts) (metav1.ConditionStatus, string, string) {
	id, node := f.State.ProviderID, f.State.Node.Name
	switch {
	case f.Match.Outcome == noderef.NoProviderID && (f.Disowned || (f.State.Deleting.IsZero() && node == "")):
		return metav1.ConditionUnknown, contract.ReasonInspectionFailed,
			waitsForProviderID(f.State.Infrastructure) + refused(f.Match)
	case f.Match.Outcome == noderef.Ambiguous:
		return metav1.ConditionUnknown, contract.ReasonAmbiguousNode, ambiguous(f.Match, id)
	case f.Match.Outcome == noderef.Claimed:
		return metav1.ConditionUnknown, contract.ReasonNodeClaimed, claimed(f.Match, f.State)
	case f.Match.Outcome == noderef.Stale:
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf(
			"Node %s is another machine's and is left alone: its spec.providerID is %q, this Machine's is %q: "+
				"correct %s if that is wrong, or wait for a Node that has it",
			node, f.Match.Other.Spec.ProviderID, id, providerIDSource(f.State.Infrastructure))
	case !f.State.Deleting.IsZero() && node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted", node)
	case !f.State.Deleting.IsZero():
		return metav1.ConditionUnknown, ReasonNodeDoesNotExist, "Node does not exist"
	case node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted while the Machine still exists", node)
	default:
		return metav1.ConditionUnknown, contract.ReasonInspectionFailed,
			fmt.Sprintf("Waiting for a Node with spec.providerID %s to exist", id) + refused(f.Match)
	}
}

// waitsForProviderID: without an infrastructure object, a step of the embedder records the provider ID.
func waitsForProviderID(infrastructure contract.Ref) string {
	if infrastructure.Kind == "" {
		return "Waiting for the provider ID of the machine"
	}
	return fmt.Sprintf("Waiting for %s to report spec.providerID", infrastructure.Kind)
}

// providerIDSource names the source of a Machine's provider ID.
func providerIDSource(infrastructure contract.Ref) string {
	if infrastructure.Kind == "" {
		return "the Machine"
	}
	return infrastructure.Kind + " " + infrastructure.Name
}

// refused says why a Node that a fallback of Options.Matching has found is rejected.
func refused(m noderef.Match) string {
	if m.Refused == noderef.NotRefused {
		return ""
	}
	return fmt.Sprintf("; Node %s looks like it, but %s", m.Other.Name, m.Refused)
}

// claimed says which Machines claim one Node, and what to do.
func claimed(m noderef.Match, state *contract.MachineState) string {
	others, holder := make([]string, 0, len(m.Rivals)), ""
	for _, c := range m.Rivals {
		others = append(others, c.Machine.String())
		if c.Recorded {
			holder = c.Machine.String()
		}
	}
	node, this := m.Other.Name, state.Key.String()
	why := fmt.Sprintf("have spec.providerID %q", m.Other.Spec.ProviderID)
	if !noderef.ValidProviderID(m.Other.Spec.ProviderID) {
		why = "have its name or address"
	}
	if len(others) == 1 && holder != "" && state.Node.UID != m.Other.UID {
		return fmt.Sprintf("Node %s belongs to Machine %s; that one and this Machine %s both %s: correct or delete the one that is wrong",
			node, holder, this, why)
	}
	return fmt.Sprintf("Node %s is left alone until it is clear whose it is: Machine %s and this Machine %s both %s: "+
		"correct or delete those that are wrong", node, engine.Named(others), this, why)
}

// ambiguous says which Nodes have one provider ID and what to do.
func ambiguous(m noderef.Match, id string) string {
	names, _ := m.CandidateNames(len(m.Candidates))
	what := "spec.providerID " + id
	if len(m.Candidates) > 0 && !noderef.ValidProviderID(m.Candidates[0].Spec.ProviderID) {
		what = "an address of this Machine"
	}
	return fmt.Sprintf("several Nodes have %s: %s; delete those that are not this machine's", what, engine.Named(names))
}

// nodeReady is the Ready condition of a Node in the words of its Machine.
func nodeReady(node *corev1.Node) metav1.Condition {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != corev1.NodeReady {
			continue
		}
		ready := engine.Condition(contract.ConditionNodeReady, metav1.ConditionStatus(c.Status), ReasonNodeReady, "")
		ready.LastTransitionTime = c.LastTransitionTime
		if c.Message != "" && c.Status != corev1.ConditionTrue {
			ready.Message = "* Node.Ready: " + c.Message
		}
		switch c.Status {
		case corev1.ConditionFalse:
			ready.Reason = ReasonNodeNotReady
		case corev1.ConditionUnknown:
			ready.Reason = ReasonNodeReadyUnknown
		case corev1.ConditionTrue:
		default:
			continue
		}
		return ready
	}
	return engine.Condition(contract.ConditionNodeReady, metav1.ConditionUnknown, ReasonNodeReadyUnknown, "* Node.Ready: "+notReported)
}

// nodeHealthy summarizes the conditions of a Node that the rules name.
func nodeHealthy(node *corev1.Node, rules noderef.HealthRules) metav1.Condition {
	report := rules.Judge(node)
	bad := false
	lines := make([]string, 0, len(report.Findings))
	for _, f := range report.Findings {
		bad = bad || f.Health == noderef.Unhealthy
		lines = append(lines, fmt.Sprintf("* Node.%s: %s", f.Type, finding(f)))
	}
	if same, all := sameFinding(report.Findings); all {
		lines = []string{"* Node.AllConditions: " + same}
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

// finding is a condition of a Node that does not have its expected status.
func finding(f noderef.Finding) string {
	switch {
	case f.Status == "":
		return notReported
	case f.Message == "":
		return fmt.Sprintf("Condition is %s", f.Status)
	}
	return f.Message
}

// sameFinding returns the common status and message of several conditions of a Node, if all reported ones are equal: when a kubelet stops
// reporting, all of them become Unknown with one message.
func sameFinding(findings []noderef.Finding) (string, bool) {
	said, count := "", 0
	for _, f := range findings {
		if f.Status == "" {
			continue
		}
		if text := finding(f); count == 0 {
			said = text
		} else if text != said {
			return "", false
		}
		count++
	}
	return said, count > 1
}
