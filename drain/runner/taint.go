package runner

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/machinist-dev/machinist/drain"
)

// OutOfServiceAnnotation marks a Node whose out-of-service taint this package set, so that it removes only its own taint, also after a
// restart.
const OutOfServiceAnnotation = "machinist.dev/out-of-service"

const outOfServicePath = "/metadata/annotations/machinist.dev~1out-of-service"

// taint sets the out-of-service taint on a Node if the policy asks for it, and removes its own taint from a Node that is Ready again. It
// sends at most one patch, and none before the cordon was observed. A patch that no longer fits is not an error: the next observation of the
// Node decides again.
func (r *Runner) taint(ctx context.Context, req *Request) error {
	node := req.Node
	if !node.Spec.Unschedulable {
		return nil
	}
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	var err error
	switch {
	case ready:
		err = r.removeTaint(ctx, node)
	case outOfService(node) < 0 && req.policy().OutOfService(r.situation(req)):
		err = r.patchTaint(ctx, node, "put out-of-service taint on", putTaint(node))
	}
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// putTaint keeps other taints and annotations.
func putTaint(node *corev1.Node) []patchOperation {
	var ops []patchOperation
	if node.Annotations == nil {
		ops = append(ops, patchOperation{Op: "test", Path: "/metadata/annotations"},
			patchOperation{Op: "add", Path: "/metadata/annotations", Value: struct{}{}})
	}
	ops = append(ops, patchOperation{Op: "add", Path: outOfServicePath, Value: "true"})
	if len(node.Spec.Taints) == 0 {
		return append(ops, patchOperation{Op: "test", Path: "/spec/taints"},
			patchOperation{Op: "add", Path: "/spec/taints", Value: []corev1.Taint{drain.OutOfServiceTaint()}})
	}
	return append(ops, patchOperation{Op: "add", Path: "/spec/taints/-", Value: drain.OutOfServiceTaint()})
}

// patchTaint sends a patch once for each observation of the Node. The error is Invalid when the Node has changed.
func (r *Runner) patchTaint(ctx context.Context, node *corev1.Node, what string, ops []patchOperation) error {
	r.mu.Lock()
	ns := r.nodes[node.Name]
	if ns == nil { // of a drain that was cancelled
		ns = &nodeState{}
	}
	sent := node.ResourceVersion != "" && ns.taintedAt == node.ResourceVersion
	ns.taintedAt = node.ResourceVersion
	r.mu.Unlock()
	if sent {
		return nil
	}
	_, err := r.patchNode(ctx, node, ops...)
	if err == nil {
		return nil
	}
	if !apierrors.IsInvalid(err) {
		r.mu.Lock()
		ns.taintedAt = "" // no answer: the same observation may send it again
		r.mu.Unlock()
	}
	return fmt.Errorf("%s node %s: %w", what, node.Name, err)
}

// removeTaint removes the taint that this package set. It tests the position of the taint, because other writers move it.
func (r *Runner) removeTaint(ctx context.Context, node *corev1.Node) error {
	if _, ours := node.Annotations[OutOfServiceAnnotation]; !ours {
		return nil
	}
	ops := []patchOperation{{Op: "remove", Path: outOfServicePath}}
	if at := outOfService(node); at >= 0 {
		path := "/spec/taints/" + strconv.Itoa(at)
		ops = append(ops, patchOperation{Op: "test", Path: path + "/key", Value: drain.OutOfServiceTaint().Key},
			patchOperation{Op: "remove", Path: path})
	}
	return r.patchTaint(ctx, node, "remove out-of-service taint from", ops)
}

func outOfService(node *corev1.Node) int {
	wanted := drain.OutOfServiceTaint()
	return slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == wanted.Key && t.Effect == wanted.Effect
	})
}
