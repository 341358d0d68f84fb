package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// matchNode finds the Machine's Node, considering the claims of other Machines, and records a new Node. A Machine whose infrastructure
// object belongs to another controller has no Node, whatever its provider ID: the other controller labels, drains and deletes that Node.
// gone: the instance no longer exists.
func (s *Scope) matchNode(ctx context.Context, gone bool) error {
	s.NodesSynced = s.NodesErr == nil && s.Workload.Nodes.HasSynced()
	if !s.NodesSynced {
		return nil
	}
	if s.Infrastructure.Foreign {
		s.Node = noderef.Match{Outcome: noderef.NoProviderID}
		return nil
	}
	var known noderef.Claims
	var unread error
	if s.env.indexed {
		known = func(node *corev1.Node) []noderef.Identity {
			others, err := s.claimsOn(ctx, node)
			unread = errors.Join(unread, err) // it may be called for several Nodes
			return others
		}
	}
	id := identityOf(&s.State)
	id.Deleting, id.Gone = s.Deleting(), gone
	match := s.env.options.Matching.Resolve(id, s.Workload.Nodes, known)
	if unread != nil {
		s.NodesSynced = false // other Machines could not be read: this Machine must not claim the Node
		return unread
	}
	s.Node, s.matched = match, match.Node
	if s.Node.Found() && !s.Deleting() {
		s.Workload.Record(&s.State.Metadata, s.ChangeAnnotation)
	}
	if s.Node.Record && s.Node.Found() {
		s.SetNode(noderef.RefTo(s.Node.Node))
	}
	return nil
}

// nodeStep finds the Machine's Node, and sets its conditions.
func nodeStep(ctx context.Context, s *Scope) (Result, error) {
	if err := s.matchNode(ctx, false); err != nil {
		s.Assert(bothOfNode(metav1.ConditionUnknown, contract.ReasonInternalError, engine.SeeLogs)...)
		return Result{}, err
	}
	s.Assert(s.nodeConditions()...)
	if s.Deleting() || cluster.IsUnread(s.NodesErr) {
		return Result{}, nil // an event follows; in a deletion only the stages that need the Nodes wait, and they report it
	}
	return Result{}, s.NodesErr
}

// isSameNode reports whether the live Node with the recorded name is the Machine's: the recorded Node, or its instance after it has
// registered again.
func isSameNode(node *corev1.Node, id noderef.Identity, rules noderef.Rules) bool {
	if !noderef.ValidProviderID(id.ProviderID) {
		return node.UID == id.Current.UID && node.UID != ""
	}
	return rules.Same(node.Spec.ProviderID, id.ProviderID) || rules.MayTouch(node, id.Current, id.ProviderID)
}

// confirmNoNode confirms with one request that the recorded Node is gone when it is missing in the index, before a stage of the deletion is
// skipped. If the Node exists or the request fails, the Nodes count as unread. A Node whose deletion this Machine has requested needs no
// confirmation.
func (s *Scope) confirmNoNode(ctx context.Context) {
	ref := s.State.Node
	missing := slices.Contains([]noderef.Outcome{noderef.NotFound, noderef.Stale, noderef.NoProviderID}, s.Node.Outcome)
	if !s.NodesSynced || s.Infrastructure.Foreign || s.disowned() || !missing || ref.Name == "" {
		return
	}
	if s.memory.requested.Has(ref.UID) {
		return
	}
	gone, err := s.memory.confirmOnce("Node "+ref.Name+" "+string(ref.UID), func() (bool, error) {
		return s.Workload.IsGone(ctx, ref.Name, func(live *corev1.Node) bool {
			return isSameNode(live, identityOf(&s.State), s.env.options.Matching)
		})
	})
	switch {
	case gone:
	case err != nil:
		s.NodesSynced, s.NodesErr = false, err
	default: // its event will follow
		s.NodesSynced = false
		s.NodesErr = fmt.Errorf("%w: Node %s exists, and its event has not come yet", cluster.ErrNotSynced, ref.Name)
	}
}

// identityOf returns the values of a Machine that identify its Node.
func identityOf(state *contract.MachineState) noderef.Identity {
	return noderef.Identity{Machine: state.Key, ProviderID: state.ProviderID, Current: state.Node}
}

// claimsOn returns the other Machines of the cluster that claim a Node. A Machine that cannot be read claims nothing; its own pass reports
// it.
func (s *Scope) claimsOn(ctx context.Context, node *corev1.Node) (others []noderef.Identity, err error) {
	for _, key := range engine.NodeKeys(s.cluster, node.Spec.ProviderID, node.Name, s.env.options.Matching) {
		err = errors.Join(err, s.env.frame.Each(ctx, s.cluster.Namespace, key, func(obj client.Object) {
			var state contract.MachineState
			itself := client.ObjectKeyFromObject(obj) == s.State.Key
			if !itself && s.env.kind.Adapter.Read(obj, &state) == nil && s.env.clusterOf(&state) == s.cluster {
				others = append(others, identityOf(&state))
			}
		}))
	}
	return others, err
}

// otherClaimants maps a Machine to the others that claim the same Node: they may use the Node when this Machine is deleted or corrected.
func (r *Reconciler) otherClaimants(ctx context.Context, obj client.Object) []reconcile.Request {
	var state contract.MachineState
	if r.kind.Adapter.Read(obj, &state) != nil {
		return nil
	}
	cluster := r.clusterOf(&state)
	claimants := r.machinesByKeys(ctx, cluster, engine.NodeKeys(cluster, state.ProviderID, state.Node.Name, r.options.Matching))
	return slices.DeleteFunc(claimants, func(request reconcile.Request) bool { return request.NamespacedName == state.Key })
}

// propagateStep writes labels, annotations and taints to the Node, in one patch that applies only to the version that was read.
func propagateStep(ctx context.Context, s *Scope) (Result, error) {
	node := s.Node.Node
	if !s.NodesSynced || node == nil || node.DeletionTimestamp != nil {
		return Result{}, nil
	}
	if s.env.frame.Writer.Behind(node) {
		return Result{RequeueAfter: engine.BehindRetry}, nil
	}
	desired := s.desired()
	s.markOutdated(&desired)
	patch, changed := s.env.options.Propagation.Diff(node, desired)
	if !changed {
		return Result{}, nil
	}
	err := s.Workload.PatchNode(ctx, s.env.frame.Writer, node, types.JSONPatchType, patch.JSON())
	if errors.Is(err, cluster.ErrNodeChanged) {
		return Result{RequeueAfter: engine.ConflictRetry}, nil
	}
	return Result{}, err
}

// desired returns what the Machine propagates to its Node.
func (s *Scope) desired() propagate.Desired {
	d := propagate.Desired{
		Labels: s.State.Labels, Annotations: s.State.Annotations,
		AddLabels: s.State.NodeLabels, AddAnnotations: s.State.NodeAnnotations, Taints: engine.NodeTaints(s.State.Taints),
		Owner: propagate.Owner{
			Namespace: s.State.Key.Namespace, Name: s.State.Key.Name, Cluster: s.State.ClusterName,
		},
	}
	if _, labelled := s.Node.Node.Labels[propagate.InterruptibleLabel]; decideInterruptible(s.Infrastructure, labelled) {
		d.AddLabels = map[string]string{propagate.InterruptibleLabel: ""}
		maps.Copy(d.AddLabels, s.State.NodeLabels)
	}
	for _, ref := range s.State.OwnerReferences {
		if engine.IsController(ref) {
			d.Owner.ControllerKind, d.Owner.ControllerName = ref.Kind, ref.Name
		}
	}
	return d
}

// outdatedTaint makes schedulers prefer Nodes that are not about to be replaced. Rule: Cluster API proposal 20230522,
// "NodeOutdatedRevisionTaint".
func outdatedTaint() corev1.Taint {
	return corev1.Taint{Key: "node.cluster.x-k8s.io/outdated-revision", Effect: corev1.TaintEffectPreferNoSchedule}
}

// markOutdated adds the taint of an outdated revision to the desired state of a Node, or its absence, according to the condition UpToDate,
// which the owner of the Machine sets. The taint is not changed while the condition is unknown or during an update in place; a Machine
// without an owner has no taint.
func (s *Scope) markOutdated(d *propagate.Desired) {
	owned := slices.ContainsFunc(s.State.OwnerReferences, engine.IsController)
	switch c, _ := s.Condition(contract.ConditionUpToDate); {
	case !owned, c.Status == metav1.ConditionTrue:
		d.WithoutTaints = append(d.WithoutTaints, outdatedTaint())
	case c.Status == metav1.ConditionFalse && c.Reason == contract.ReasonNotUpToDate: // not recorded as managed by the Machine
		d.Taints = append(d.Taints, propagate.Taint{Taint: outdatedTaint(), Propagation: propagate.WhenMissing})
	}
}

// decideInterruptible reports whether a Node gets the label of an interruptible instance. While the infrastructure could not be read, the
// label is not changed.
func decideInterruptible(infrastructure external.Object, labelled bool) bool {
	layout := contract.LayoutsOf(infrastructure.Contract).InfraMachine
	switch {
	case infrastructure.Presence == external.NotReferenced || infrastructure.Presence == external.Absent:
		return false
	case infrastructure.Presence != external.Present || layout == nil || infrastructure.Object == nil: // or set by a step of the embedder
		return labelled
	}
	interruptible, _, err := layout.Interruptible.Get(infrastructure.Object.Object)
	return interruptible || (err != nil && labelled)
}
