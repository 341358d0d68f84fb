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
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cordonMemo remembers a cordon that was sent, so that a look at the Node from before is not answered by a second one.
type cordonMemo struct {
	from string // resource version of the observation that was answered
	to   string // resource version of the Node after it
}

// covers says whether an observation that shows the Node schedulable is older than our cordon. A newer one means that
// somebody has uncordoned it since.
func (m cordonMemo) covers(observed string) bool {
	if m.to == "" {
		return false
	}
	if c, err := resourceversion.CompareResourceVersion(observed, m.to); err == nil {
		return c < 0
	}
	return observed == m.from
}

// cordon makes sure that the Node is or is being cordoned. It reports since when the caller has seen it so; zero if not.
func (r *Runner) cordon(ctx context.Context, node *corev1.Node) (time.Time, error) {
	r.mu.Lock()
	ns := r.nodes[node.Name]
	if ns == nil { // released meanwhile
		r.mu.Unlock()
		return time.Time{}, nil
	}
	if node.Spec.Unschedulable {
		if now := r.cfg.Clock.Now(); ns.cordonSeen.IsZero() || ns.cordonSeen.After(now) { // or the clock was set back
			ns.cordonSeen = now
		}
		seen := ns.cordonSeen
		r.mu.Unlock()
		return seen, nil
	}
	ns.cordonSeen = time.Time{}
	covered := ns.cordon.covers(node.ResourceVersion)
	r.mu.Unlock()
	if covered {
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

type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchUnschedulable writes one field, tests the UID, and leaves resourceVersion out so that the kubelet's status writes
// do not conflict. It returns the resource version after the write.
func (r *Runner) patchUnschedulable(ctx context.Context, node *corev1.Node, to bool) (string, error) {
	verb := "uncordon"
	if to {
		verb = "cordon"
	}
	patch, err := json.Marshal([]patchOperation{
		{Op: "test", Path: "/metadata/uid", Value: node.UID},
		{Op: "add", Path: "/spec/unschedulable", Value: to},
	})
	if err != nil {
		return "", fmt.Errorf("%s node %s: %w", verb, node.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	err = r.cfg.Nodes.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch))
	if isReplaced(err) {
		return "", fmt.Errorf("%s node %s: %w: %w", verb, node.Name, ErrNodeReplaced, err)
	}
	if err != nil {
		return "", fmt.Errorf("%s node %s: %w", verb, node.Name, err)
	}
	return target.ResourceVersion, nil
}

// isReplaced says whether the test of the UID failed. A Node that is refused as invalid is answered 422 too, but with causes.
func isReplaced(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}
