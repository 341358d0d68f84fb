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
func (s *Scope) matchNode(ctx context.Context) error {
	s.NodesSynced = s.NodesErr == nil && s.Workload.Nodes.HasSynced()
	if !s.NodesSynced {
		return nil
	}
	if s.Infrastructure.Foreign {
		s.Node = noderef.Match{Outcome: noderef.NoProviderID}
		return nil
	}
	match, err := s.matchOf(ctx)
	if err != nil {
		s.NodesSynced = false // other Machines could not be read: this one must not take the Node
		return err
	}
	s.Node = match
	if s.Node.Record && s.Node.Found() {
		s.SetNode(contract.NodeRef{Name: s.Node.Node.Name, UID: s.Node.Node.UID})
	}
	return nil
}

// matchOf finds the Node of a Machine among those of the cluster, in the light of the other Machines.
func (s *Scope) matchOf(ctx context.Context) (noderef.Match, error) {
	rules, id := s.env.options.Matching, identityOf(&s.State)
	if !s.env.indexed {
		return rules.Resolve(id, s.Workload.Nodes, nil), nil
	}
	others := claims{ctx: ctx, r: s.env, cluster: s.cluster, self: s.State.Key}
	return rules.Resolve(id, s.Workload.Nodes, &others), others.err
}

func nodeStep(ctx context.Context, s *Scope) (Result, error) {
	if err := s.matchNode(ctx); err != nil {
		return Result{}, err
	}
	if !s.NodesSynced {
		return s.nodesUnread()
	}
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
			fmt.Sprintf("Waiting for %s to report spec.providerID", f.State.Infrastructure.Kind) + refused(f.Match)
	case f.Match.Outcome == noderef.Ambiguous:
		return metav1.ConditionUnknown, ReasonAmbiguousNode, ambiguous(f.Match, id)
	case f.Match.Outcome == noderef.Claimed:
		return metav1.ConditionUnknown, ReasonNodeClaimed, claimed(f.Match, f.State)
	case f.Match.Outcome == noderef.Stale:
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf(
			"Node %s is another machine's and is left alone: its spec.providerID is %q, this Machine's is %q: correct %s %s if that is wrong, or wait for a Node that has it",
			node, f.Match.Other.Spec.ProviderID, id, f.State.Infrastructure.Kind, f.State.Infrastructure.Name)
	case !f.State.Deleting.IsZero() && node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted", node)
	case !f.State.Deleting.IsZero():
		return metav1.ConditionUnknown, ReasonNodeDoesNotExist, "Node does not exist"
	case node != "":
		return metav1.ConditionFalse, ReasonNodeDeleted, fmt.Sprintf("Node %s has been deleted while the Machine still exists", node)
	default:
		return metav1.ConditionUnknown, ReasonInspectionFailed, fmt.Sprintf("Waiting for a Node with spec.providerID %s to exist", id) + refused(f.Match)
	}
}

// refused says why a Node that looks like the Machine's is not taken for it, where Options.Matching has fallbacks.
func refused(m noderef.Match) string {
	if m.Refused == noderef.NotRefused {
		return ""
	}
	return fmt.Sprintf("; Node %s looks like it, but %s", m.Other.Name, m.Refused)
}

// claimed says which Machines name one Node, and what to do.
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
	return fmt.Sprintf("Node %s is left alone until it is clear whose it is: Machine %s and this Machine %s both %s: correct or delete those that are wrong",
		node, firstOf(others), this, why)
}

// firstOf lists the first few of many names.
func firstOf(names []string) string {
	list := strings.Join(names[:min(len(names), maxNodeNames)], ", ")
	if more := len(names) - maxNodeNames; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// ambiguous says which Nodes carry one provider ID and what to do.
func ambiguous(m noderef.Match, id string) string {
	names, _ := m.CandidateNames(len(m.Candidates))
	what := "spec.providerID " + id
	if len(m.Candidates) > 0 && !noderef.ValidProviderID(m.Candidates[0].Spec.ProviderID) {
		what = "an address of this Machine"
	}
	return fmt.Sprintf("several Nodes have %s: %s; delete those that are not this machine's", what, firstOf(names))
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
	for _, f := range noderef.ClusterAPIHealth().Judge(node).Findings {
		message := f.Message
		if f.Status == "" {
			message = "Condition not yet reported"
		}
		line := fmt.Sprintf("* Node.%s: %s", f.Type, message)
		if f.Health == noderef.Unhealthy {
			bad = append(bad, line)
		} else {
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

// propagateStep brings labels, annotations and taints to the Node, in one patch that only applies to the Node that was read.
func propagateStep(ctx context.Context, s *Scope) (Result, error) {
	node := s.Node.Node
	if !s.NodesSynced || node == nil || node.DeletionTimestamp != nil {
		return Result{}, nil
	}
	if s.env.memory.behind(node) {
		return Result{RequeueAfter: behindRetry}, nil
	}
	patch, changed := s.env.options.Propagation.Diff(node, s.desired())
	if !changed {
		return Result{}, nil
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err := s.Workload.Client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch.JSON()))
	switch {
	case err == nil:
		s.env.memory.wrote(target)
		return Result{}, nil
	case propagate.Rejected(err), apierrors.IsConflict(err), isUnread(err):
		return Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsNotFound(err):
		return Result{}, nil // its event is on the way
	}
	return Result{}, fmt.Errorf("propagate to Node %s: %w", node.Name, err)
}

// desired is what the Machine hands down to its Node.
func (s *Scope) desired() propagate.Desired {
	d := propagate.Desired{
		Labels: s.State.Labels, Annotations: s.State.Annotations, AddLabels: s.interruptible(),
		Owner: propagate.Owner{
			Namespace: s.State.Key.Namespace, Name: s.State.Key.Name, UID: s.State.UID, Cluster: s.State.ClusterName,
		},
	}
	for _, t := range s.State.Taints {
		d.Taints = append(d.Taints, propagate.Taint{
			Taint:       corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)},
			Propagation: propagate.Propagation(t.Propagation),
		})
	}
	for _, ref := range s.State.OwnerReferences {
		if isTrue(ref.Controller) {
			d.Owner.ControllerKind, d.Owner.ControllerName = ref.Kind, ref.Name
		}
	}
	return d
}

// interruptible is the label of a Node whose infrastructure reports that it may be taken away.
func (s *Scope) interruptible() map[string]string {
	_, labelled := s.Node.Node.Labels[propagate.InterruptibleLabel]
	if !decideInterruptible(s.Infrastructure, labelled) {
		return nil
	}
	return map[string]string{propagate.InterruptibleLabel: ""}
}

// decideInterruptible says whether a Node gets the label, or keeps it: while its infrastructure could not be read it stays as
// it is.
func decideInterruptible(infrastructure External, labelled bool) bool {
	switch infrastructure.Presence {
	case NotReferenced, Absent:
		return false
	case Unread, KindMissing:
	case Present:
		said, _, err := contract.InfraMachine(infrastructure.Contract).Interruptible.Get(infrastructure.Object.Object)
		return said || (err != nil && labelled)
	}
	return labelled
}
