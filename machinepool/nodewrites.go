package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// desired returns what the pool propagates to its Nodes: the values of its template.
func (p *Scope) desired() propagate.Desired {
	template := &p.State.Template
	d := propagate.Desired{
		Labels: template.Labels, Annotations: template.Annotations,
		Owner: propagate.Owner{
			Namespace: p.State.Key.Namespace, Cluster: p.State.ClusterName,
			ControllerKind: p.env.kinds.Pool.GVK.Kind, ControllerName: p.State.Key.Name,
		},
	}
	for _, t := range template.Taints {
		d.Taints = append(d.Taints, propagate.Taint{
			Taint:       corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)},
			Propagation: propagate.Propagation(t.Propagation),
		})
	}
	return d
}

// propagate sends each Node that lacks something one patch, which only applies to the Node that was read. Where Machines represent the
// instances, the Machine controller does that.
func (p *Scope) propagate(ctx context.Context) error {
	if !p.nodesKnown || p.ledByMachines() {
		return nil
	}
	desired := p.desired()
	return p.eachNode(p.match.Nodes, func(node *corev1.Node) error {
		patch, differs := p.env.options.Propagation.Diff(node, desired)
		if !differs || node.DeletionTimestamp != nil || p.env.frame.Writer.Behind(node) {
			return nil
		}
		return p.patchNode(ctx, node, types.JSONPatchType, patch.JSON())
	})
}

// eachNode writes Nodes.
func (p *Scope) eachNode(nodes []*corev1.Node, do func(*corev1.Node) error) error {
	_, err := each(p, nodes, do)
	return err
}

// patchNode writes a Node. A Node that changed since it was read is reconciled again on its event.
func (p *Scope) patchNode(ctx context.Context, node *corev1.Node, kind types.PatchType, body []byte) error {
	err := p.workload.PatchNode(ctx, p.env.frame.Writer, node, kind, body)
	if errors.Is(err, cluster.ErrNodeChanged) {
		return errAgain
	}
	return err
}

// deleteNodes deletes Nodes that are not being deleted. In a pool that lives, a Node is deleted only as it was read: since then its kubelet
// may answer again, or another process may have uncordoned it.
func (p *Scope) deleteNodes(ctx context.Context, nodes []*corev1.Node) error {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return node.DeletionTimestamp != nil })
	deleted, err := each(p, nodes, func(node *corev1.Node) error {
		only := client.Preconditions{UID: &node.UID}
		if !p.Deleting() {
			only.ResourceVersion = &node.ResourceVersion
		}
		return deleteObject(ctx, p.workload.Client, "Node "+node.Name, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, only)
	})
	if len(deleted) > 0 {
		p.tell(EventNodeDeleted, "%s", engine.Named(mapped(deleted, (*corev1.Node).GetName)))
	}
	return err
}

// errAgain means that an object must be read again soon. No pass returns it.
var errAgain = errors.New("the object is not as it was read")

// deleteObject requests the deletion of an object that was read. One that is gone, or is another one by now, is errAgain.
func deleteObject(ctx context.Context, c client.Client, name string, obj client.Object, only client.Preconditions) error {
	err := c.Delete(ctx, obj, only)
	switch {
	case apierrors.IsConflict(err), external.SaysGone(err):
		return errAgain
	case err != nil:
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// each calls a function for several objects, and returns those for which it succeeds. For an error that only means that an object must be
// read again, it requests another pass. After a request that was not answered in time it ends: each further one could last as long.
func each[T any](p *Scope, all []T, do func(T) error) (done []T, failed error) {
	for _, one := range all {
		err := do(one)
		switch {
		case err == nil:
			done = append(done, one)
		case errors.Is(err, errAgain):
			p.Requeue(engine.ConflictRetry)
		default:
			failed = errors.Join(failed, err)
		}
		if utilnet.IsTimeout(err) {
			break
		}
	}
	return done, failed
}

// mapped returns something of each object, such as its name, in their order.
func mapped[T, R any](all []T, of func(T) R) []R {
	some := make([]R, 0, len(all))
	for _, one := range all {
		some = append(some, of(one))
	}
	return some
}
