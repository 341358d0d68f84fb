package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/noderef"
)

// cordonMemo remembers a cordon patch, so that an older observation of the Node does not cause a second one.
type cordonMemo struct {
	from string // resource version of the observation that caused the patch
	to   string // resource version of the Node after it
}

// covers reports whether an observation of the schedulable Node is older than the patch. After a newer one the Node was uncordoned again.
func (m cordonMemo) covers(observed string) bool {
	if m.to == "" {
		return false
	}
	if c, err := resourceversion.CompareResourceVersion(observed, m.to); err == nil {
		return c < 0
	}
	return observed == m.from
}

// cordon cordons the Node. It returns since when Steps were shown the cordon; zero if this one was not.
func (r *Runner) cordon(ctx context.Context, ns *nodeState, node *corev1.Node) (time.Time, error) {
	r.mu.Lock()
	if node.Spec.Unschedulable {
		defer r.mu.Unlock()
		if now := r.cfg.Clock.Now(); ns.cordonSeen.IsZero() || ns.cordonSeen.After(now) { // or the clock was set back
			ns.cordonSeen = now
		}
		return ns.cordonSeen, nil
	}
	ns.cordonSeen = time.Time{}
	skip := ns.released || ns.cordon.covers(node.ResourceVersion)
	r.mu.Unlock()
	if skip {
		return time.Time{}, nil
	}
	after, err := r.patchUnschedulable(ctx, node, true)
	if err != nil {
		return time.Time{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ns.cordon = cordonMemo{from: node.ResourceVersion, to: after}
	return time.Time{}, nil
}

// patchUnschedulable writes one field. It returns the resource version after the write.
func (r *Runner) patchUnschedulable(ctx context.Context, node *corev1.Node, to bool) (string, error) {
	verb := "uncordon"
	if to {
		verb = "cordon"
	}
	after, err := r.patchNode(ctx, node, patchOperation{Op: "add", Path: "/spec/unschedulable", Value: to})
	if isReplaced(err) {
		err = fmt.Errorf("%w: %w", ErrNodeReplaced, err)
	}
	if err != nil {
		return "", fmt.Errorf("%s node %s: %w", verb, node.Name, err)
	}
	return after, nil
}

type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchNode sends a patch that tests the UID. It omits the resource version, so that status writes of the kubelet cause no conflict.
func (r *Runner) patchNode(ctx context.Context, node *corev1.Node, ops ...patchOperation) (resourceVersion string, err error) {
	patch, err := json.Marshal(append([]patchOperation{{Op: "test", Path: "/metadata/uid", Value: node.UID}}, ops...))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err = r.cfg.Nodes.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch))
	return target.ResourceVersion, err
}

// isReplaced reports whether the test of the UID failed. The API server answers 422 also to an invalid Node, but with causes.
func isReplaced(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}

// OutOfServiceAnnotation marks a Node whose out-of-service taint this package set, so that it removes only its own taint, also after a
// restart.
const OutOfServiceAnnotation = "machinist.dev/out-of-service"

const outOfServicePath = "/metadata/annotations/machinist.dev~1out-of-service"

// taint sets the out-of-service taint on a Node if the policy asks for it, and removes its own taint from a Node that is Ready again. It
// sends at most one patch, and none before the cordon was observed. A patch that no longer fits is not an error: the next observation of
// the Node decides again.
func (r *Runner) taint(ctx context.Context, ns *nodeState, req *Request) error {
	node := req.Node
	if !node.Spec.Unschedulable {
		return nil
	}
	var err error
	switch {
	case noderef.Ready(node):
		err = r.removeTaint(ctx, ns, node)
	case outOfService(node) < 0 && req.policy().OutOfService(r.situation(req)):
		err = r.patchTaint(ctx, ns, node, "put out-of-service taint on", putTaint(node))
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
func (r *Runner) patchTaint(ctx context.Context, ns *nodeState, node *corev1.Node, what string, ops []patchOperation) error {
	r.mu.Lock()
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
func (r *Runner) removeTaint(ctx context.Context, ns *nodeState, node *corev1.Node) error {
	if _, ours := node.Annotations[OutOfServiceAnnotation]; !ours {
		return nil
	}
	ops := []patchOperation{{Op: "remove", Path: outOfServicePath}}
	if at := outOfService(node); at >= 0 {
		path := "/spec/taints/" + strconv.Itoa(at)
		ops = append(ops, patchOperation{Op: "test", Path: path + "/key", Value: drain.OutOfServiceTaint().Key},
			patchOperation{Op: "remove", Path: path})
	}
	return r.patchTaint(ctx, ns, node, "remove out-of-service taint from", ops)
}

func outOfService(node *corev1.Node) int {
	wanted := drain.OutOfServiceTaint()
	return slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == wanted.Key && t.Effect == wanted.Effect
	})
}
