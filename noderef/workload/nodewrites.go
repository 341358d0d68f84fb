package workload

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// ErrNodeChanged matches the error of PatchNode when the Node is not as it was read, or the cluster cannot be reached now: read the Node
// again, and decide again.
var ErrNodeChanged = errors.New("the Node is not as it was read")

// PatchNode sends a patch of the Node that target names, and fills target with the answer. The patch must contain the UID of the Node that
// was read. The error of a Node that is gone satisfies external.SaysGone: its event will follow. Any other error that does not match
// ErrNodeChanged names the Node.
func (w Workload) PatchNode(ctx context.Context, target *corev1.Node, kind types.PatchType, body []byte) error {
	name := target.Name
	err := w.Client.Patch(ctx, target, client.RawPatch(kind, body))
	switch {
	case err == nil, external.SaysGone(err):
		return err
	case propagate.Rejected(err), apierrors.IsConflict(err), IsUnread(err):
		return fmt.Errorf("%w: %w", ErrNodeChanged, err)
	}
	return fmt.Errorf("write Node %s: %w", name, err)
}
