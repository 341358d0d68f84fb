package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cordon cordons a Node that is shown schedulable, and again until it is shown cordoned. It returns since when Steps were shown the cordon;
// zero if this one was not.
func (r *Runner) cordon(ctx context.Context, ns *nodeState, node *corev1.Node) (time.Time, error) {
	r.mu.Lock()
	if node.Spec.Unschedulable {
		defer r.mu.Unlock()
		if now := r.cfg.Clock.Now(); ns.cordonSeen.IsZero() || ns.cordonSeen.After(now) { // or the clock was set back
			ns.cordonSeen = now
		}
		return ns.cordonSeen, nil
	}
	ns.cordonSeen, ns.listedAgain = time.Time{}, false
	released := ns.released
	r.mu.Unlock()
	if released || r.cordons.Behind(node) { // it is shown as it was before the cordon
		return time.Time{}, nil
	}
	return time.Time{}, r.patchUnschedulable(ctx, node, true)
}

// patchUnschedulable writes one field, with a test of the UID. It omits the resource version, so that status writes of the kubelet cause
// no conflict.
func (r *Runner) patchUnschedulable(ctx context.Context, node *corev1.Node, to bool) error {
	verb := "uncordon"
	if to {
		verb = "cordon"
	}
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": node.UID},
		{"op": "add", "path": "/spec/unschedulable", "value": to},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err = r.cordons.PatchThrough(ctx, r.cfg.Nodes, target, client.RawPatch(types.JSONPatchType, body))
	if isReplaced(err) {
		err = fmt.Errorf("%w: %w", errNodeReplaced, err)
	}
	if err != nil {
		return fmt.Errorf("%s node %s: %w", verb, node.Name, err)
	}
	return nil
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
