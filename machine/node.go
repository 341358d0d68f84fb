package machine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// matchNode looks the Machine's Node up, and records it when it is a new one. A Machine whose infrastructure is another
// controller's has no Node, whatever provider ID it names: that Node is the other's to label, to drain and to delete.
func (s *Scope) matchNode() {
	s.NodesSynced = s.env.ports.Nodes.HasSynced()
	if !s.NodesSynced {
		return
	}
	current := noderef.Ref{Name: s.State.Node.Name, UID: s.State.Node.UID}
	identity := noderef.Identity{ProviderID: s.State.ProviderID, Current: current}
	if s.Infrastructure.Foreign {
		identity.ProviderID = ""
	}
	s.Node = noderef.Resolve(identity, s.env.ports.Nodes)
	if s.Node.Record && s.Node.Found() {
		s.SetNode(contract.NodeRef{Name: s.Node.Node.Name, UID: s.Node.Node.UID})
	}
}

func nodeStep(_ context.Context, s *Scope) (Result, error) {
	s.matchNode()
	for _, c := range decideNode(nodeFacts{Synced: s.NodesSynced, Match: s.Node, State: &s.State}) {
		s.Assert(c)
	}
	return Result{}, nil
}

// nodeFacts are what a pass knows of a Machine's Node.
type nodeFacts struct {
	Synced bool
	Match  noderef.Match
	State  *contract.MachineState
}

// decideNode returns NodeReady and NodeHealthy, or nothing when the Nodes could not be read: then what was said before
// stays.
func decideNode(f nodeFacts) []metav1.Condition {
	if !f.Synced {
		return nil
	}
	if f.Match.Node != nil {
		return []metav1.Condition{nodeReady(f.Match.Node), nodeHealthy(f.Match.Node)}
	}
	status, reason, message := withoutNode(f)
	return []metav1.Condition{
		condition(ConditionNodeReady, status, reason, message),
		condition(ConditionNodeHealthy, status, reason, message),
	}
}

const maxNodeNames = 5

func withoutNode(f nodeFacts) (metav1.ConditionStatus, string, string) {
	id, node := f.State.ProviderID, f.State.Node.Name
	switch {
	case f.Match.Outcome == noderef.NoProviderID:
		return metav1.ConditionUnknown, ReasonInspectionFailed,
			fmt.Sprintf("Waiting for %s to report spec.providerID", f.State.Infrastructure.Kind)
	case f.Match.Outcome == noderef.Ambiguous:
		return metav1.ConditionUnknown, ReasonAmbiguousNode, ambiguous(f.Match, id)
	case f.Match.Outcome == noderef.Stale:
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf(
			"Node %s is another machine's: its spec.providerID is %q, this Machine's is %q", node, f.Match.Other.Spec.ProviderID, id)
	case !f.State.Deleting.IsZero() && node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted", node)
	case !f.State.Deleting.IsZero():
		return metav1.ConditionUnknown, ReasonNodeDoesNotExist, "Node does not exist"
	case node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted while the Machine still exists", node)
	default:
		return metav1.ConditionUnknown, ReasonInspectionFailed, fmt.Sprintf("Waiting for a Node with spec.providerID %s to exist", id)
	}
}

// ambiguous says which Nodes carry one provider ID and what to do.
func ambiguous(m noderef.Match, id string) string {
	names, more := m.CandidateNames(maxNodeNames)
	list := strings.Join(names, ", ")
	if more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("several Nodes have spec.providerID %s: %s; delete those that are not this machine's", id, list)
}

func nodeReady(node *corev1.Node) metav1.Condition {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != corev1.NodeReady {
			continue
		}
		switch c.Status {
		case corev1.ConditionTrue:
			return condition(ConditionNodeReady, metav1.ConditionTrue, ReasonNodeReady, "")
		case corev1.ConditionFalse:
			return condition(ConditionNodeReady, metav1.ConditionFalse, ReasonNodeNotReady, "* Node.Ready: "+c.Message)
		case corev1.ConditionUnknown:
			return condition(ConditionNodeReady, metav1.ConditionUnknown, ReasonNodeReadyUnknown, "* Node.Ready: "+c.Message)
		}
	}
	return condition(ConditionNodeReady, metav1.ConditionUnknown, ReasonNodeReadyUnknown, "* Node.Ready: Condition not yet reported")
}

// nodeHealthy sums up the conditions of a Node that Cluster API looks at.
func nodeHealthy(node *corev1.Node) metav1.Condition {
	var bad, unknown []string
	for _, want := range []struct {
		kind corev1.NodeConditionType
		good corev1.ConditionStatus
	}{
		{corev1.NodeReady, corev1.ConditionTrue}, {corev1.NodeMemoryPressure, corev1.ConditionFalse},
		{corev1.NodeDiskPressure, corev1.ConditionFalse}, {corev1.NodePIDPressure, corev1.ConditionFalse},
	} {
		status, message := nodeCondition(node, want.kind)
		line := fmt.Sprintf("* Node.%s: %s", want.kind, message)
		switch {
		case status == want.good:
		case status == corev1.ConditionTrue || status == corev1.ConditionFalse:
			bad = append(bad, line)
		default:
			unknown = append(unknown, line)
		}
	}
	switch {
	case len(bad) > 0:
		return condition(ConditionNodeHealthy, metav1.ConditionFalse, ReasonNodeNotHealthy, strings.Join(append(bad, unknown...), "\n"))
	case len(unknown) > 0:
		return condition(ConditionNodeHealthy, metav1.ConditionUnknown, ReasonNodeHealthUnknown, strings.Join(unknown, "\n"))
	default:
		return condition(ConditionNodeHealthy, metav1.ConditionTrue, ReasonNodeHealthy, "")
	}
}

func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType) (corev1.ConditionStatus, string) {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			return c.Status, c.Message
		}
	}
	return corev1.ConditionUnknown, "Condition not yet reported"
}

// propagateStep brings labels and annotations to the Node, in one patch that only applies to the Node that was read.
func propagateStep(ctx context.Context, s *Scope) (Result, error) {
	node := s.Node.Node
	if !s.NodesSynced || node == nil || node.DeletionTimestamp != nil || s.env.memory.behind(node) {
		return Result{}, nil
	}
	patch, changed := propagate.Diff(node, s.desired())
	if !changed {
		return Result{}, nil
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err := s.env.ports.NodeClient.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch.JSON()))
	switch {
	case err == nil:
		s.env.memory.wrote(target)
		return Result{}, nil
	case propagate.Rejected(err), apierrors.IsConflict(err):
		return Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsNotFound(err):
		return Result{}, nil // its event is on the way
	}
	return Result{}, fmt.Errorf("propagate to Node %s: %w", node.Name, err)
}

func (s *Scope) desired() propagate.Desired {
	policy := propagate.ClusterAPI()
	owner := propagate.Owner{
		ClusterName: s.State.ClusterName, ClusterNamespace: s.State.Key.Namespace, Machine: s.State.Key.Name,
	}
	for _, ref := range s.State.OwnerReferences {
		if isTrue(ref.Controller) {
			owner.OwnerKind, owner.OwnerName = ref.Kind, ref.Name
		}
	}
	return propagate.Desired{
		Labels:      policy.SelectLabels(s.State.Labels),
		Annotations: policy.SelectAnnotations(s.State.Annotations),
		Owner:       owner,
	}
}
