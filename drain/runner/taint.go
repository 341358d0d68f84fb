package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// OutOfServiceAnnotation stands on a Node whose out-of-service taint this package has put there, so that it takes away its
// own taint only, also after a restart.
const OutOfServiceAnnotation = "machinist.dev/out-of-service"

const outOfServicePath = "/metadata/annotations/machinist.dev~1out-of-service"

// taint puts the out-of-service taint on a Node that the policy wants to carry it, and takes our own away from a Node that
// is Ready again. It sends at most one patch, and none for a Node whose cordon was not observed yet. A patch that does not
// fit any more is no error: the next look at the Node decides again.
func (r *Runner) taint(ctx context.Context, req *Request) error {
	node := req.Node
	var err error
	switch {
	case !node.Spec.Unschedulable:
	case isReady(node):
		err = r.removeTaint(ctx, node)
	case outOfService(node) < 0 && req.policy().OutOfService(r.situation(req)):
		err = r.patchTaint(ctx, node, "put out-of-service taint on", putTaint(node))
	}
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// putTaint leaves everybody else's taints and annotations alone.
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

// untaint tests the place of the taint, because other writers move it.
func untaint(at int) []patchOperation {
	mark := patchOperation{Op: "remove", Path: outOfServicePath}
	if at < 0 {
		return []patchOperation{mark}
	}
	path := "/spec/taints/" + strconv.Itoa(at)
	return []patchOperation{
		mark, {Op: "test", Path: path + "/key", Value: drain.OutOfServiceTaint().Key}, {Op: "remove", Path: path},
	}
}

// patchTaint sends a patch for this look at the Node once. The error is Invalid when the Node has changed since.
func (r *Runner) patchTaint(ctx context.Context, node *corev1.Node, what string, ops []patchOperation) error {
	r.mu.Lock()
	ns := r.nodes[node.Name]
	if ns != nil && node.ResourceVersion != "" && ns.taintedAt == node.ResourceVersion {
		r.mu.Unlock()
		return nil
	}
	if ns != nil {
		ns.taintedAt = node.ResourceVersion
	}
	r.mu.Unlock()
	patch, err := json.Marshal(append([]patchOperation{{Op: "test", Path: "/metadata/uid", Value: node.UID}}, ops...))
	if err != nil {
		return fmt.Errorf("%s node %s: %w", what, node.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err = r.cfg.Nodes.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch))
	if err == nil {
		return nil
	}
	r.mu.Lock()
	if ns != nil && !apierrors.IsInvalid(err) {
		ns.taintedAt = "" // not answered: the same look may try again
	}
	r.mu.Unlock()
	return fmt.Errorf("%s node %s: %w", what, node.Name, err)
}

// removeTaint takes our taint away from a Node that is to be used again.
func (r *Runner) removeTaint(ctx context.Context, node *corev1.Node) error {
	if _, ours := node.Annotations[OutOfServiceAnnotation]; !ours {
		return nil
	}
	return r.patchTaint(ctx, node, "remove out-of-service taint from", untaint(outOfService(node)))
}

func outOfService(node *corev1.Node) int {
	wanted := drain.OutOfServiceTaint()
	return slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == wanted.Key && t.Effect == wanted.Effect
	})
}
