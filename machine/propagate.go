package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// propagateStep writes labels, annotations and taints to the Node, in one patch that only applies to the version that was read.
func propagateStep(ctx context.Context, s *Scope) (Result, error) {
	node := s.Node.Node
	if !s.NodesSynced || node == nil || node.DeletionTimestamp != nil {
		return Result{}, nil
	}
	if s.env.writer.Behind(node) {
		return Result{RequeueAfter: behindRetry}, nil
	}
	desired := s.desired()
	s.markOutdated(ctx, &desired)
	patch, changed := s.env.options.Propagation.Diff(node, desired)
	if !changed {
		return Result{}, nil
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err := s.Workload.Client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch.JSON()))
	switch {
	case err == nil:
		s.env.writer.Wrote(target)
		_, labelled := node.Labels[propagate.InterruptibleLabel]
		if _, labels := desired.AddLabels[propagate.InterruptibleLabel]; labels && !labelled {
			s.tell(corev1.EventTypeNormal, EventInterruptible, actionLabelNode, node.Name)
		}
		return Result{}, nil
	case propagate.Rejected(err), apierrors.IsConflict(err), isUnread(err):
		return Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsNotFound(err):
		return Result{}, nil // its event will follow
	}
	return Result{}, fmt.Errorf("propagate to Node %s: %w", node.Name, err)
}

// desired is what the Machine propagates to its Node.
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

// interruptible is the label of a Node whose infrastructure reports that it can be interrupted.
func (s *Scope) interruptible() map[string]string {
	_, labelled := s.Node.Node.Labels[propagate.InterruptibleLabel]
	if !decideInterruptible(s.Infrastructure, labelled) {
		return nil
	}
	return map[string]string{propagate.InterruptibleLabel: ""}
}

// decideInterruptible reports whether a Node gets the label. While its infrastructure could not be read, the label stays as it is.
func decideInterruptible(infrastructure external.Object, labelled bool) bool {
	switch infrastructure.Presence {
	case external.NotReferenced, external.Absent:
		return false
	case external.Unread, external.KindMissing:
	case external.Present:
		layout := contract.InfraMachine(infrastructure.Contract)
		if layout == nil || infrastructure.Object == nil {
			break // of a step of the embedder, which does not report it
		}
		said, _, err := layout.Interruptible.Get(infrastructure.Object.Object)
		return said || (err != nil && labelled)
	}
	return labelled
}
