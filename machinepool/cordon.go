package machinepool

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// CordonedAnnotation of a Node is the time when a pool cordoned it, because its instance was about to leave. The patch that cordons a Node
// sets it, and only applies to the Node as it was read. A Node without it is not uncordoned when its instance stays.
const CordonedAnnotation = "machinist.dev/cordoned-by-pool-since"

// marks are the annotations of a Node that leaves. contract.DrainStartedAnnotation is when its drain began.
func marks() []string {
	return []string{CordonedAnnotation, contract.DrainStartedAnnotation, contract.DrainedAnnotation}
}

// hasMark reports whether a Node has a mark.
func hasMark(node *corev1.Node) bool {
	return slices.ContainsFunc(marks(), func(key string) bool {
		_, found := node.Annotations[key]
		return found
	})
}

// isYetToBegin reports whether the drain of a Node has no record of the begin from which every process counts the limit, or the pool has to
// cordon the Node. A drain whose recorded begin is yet to come begins anew.
func (p *Scope) isYetToBegin(node *corev1.Node) bool {
	return p.started(node.Annotations, contract.DrainStartedAnnotation).IsZero() || isToCordon(node)
}

// isToCordon: the first cordon is the pool's, with its mark. What others uncordon after that is up to the Drainer, unless the Node is
// marked as drained: that has to go with the same patch, or the provider deletes an instance that may have Pods again.
func isToCordon(node *corev1.Node) bool {
	_, ours := node.Annotations[CordonedAnnotation]
	return !node.Spec.Unschedulable && (!ours || marksDrained(node))
}

// beginDrains records on Nodes that their drains begin, and cordons those that are not, in one patch for each.
func (p *Scope) beginDrains(ctx context.Context, nodes []*corev1.Node) error {
	due := slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
		return !p.isYetToBegin(node) || p.env.frame.Writer.Behind(node)
	})
	now := p.Now.UTC().Format(time.RFC3339)
	return p.eachNode(due, func(node *corev1.Node) error {
		annotations, spec := map[string]any{}, map[string]any{}
		if p.started(node.Annotations, contract.DrainStartedAnnotation).IsZero() {
			annotations[contract.DrainStartedAnnotation] = now
		}
		if _, marked := node.Annotations[contract.DrainedAnnotation]; marked {
			annotations[contract.DrainedAnnotation] = nil
		}
		if !node.Spec.Unschedulable {
			annotations[CordonedAnnotation], spec["unschedulable"] = now, true
		}
		return p.writeMarks(ctx, node, annotations, spec)
	})
}

// sayDrained records on a Node that it was drained, for the provider, which may then delete the instance.
func (p *Scope) sayDrained(ctx context.Context, node *corev1.Node) error {
	return p.writeMarks(ctx, node, map[string]any{contract.DrainedAnnotation: string(node.UID)}, nil)
}

// removeMarks removes the marks of a Node, and uncordons it if the pool cordoned it.
func (p *Scope) removeMarks(ctx context.Context, node *corev1.Node) error {
	annotations, spec := map[string]any{}, map[string]any{}
	for _, key := range marks() {
		annotations[key] = nil
	}
	if _, ours := node.Annotations[CordonedAnnotation]; ours {
		spec["unschedulable"] = nil
	}
	return p.writeMarks(ctx, node, annotations, spec)
}

// writeMarks writes annotations and the specification of a Node, if the Node is as it was read: whoever removes its marks or uncordons it
// meanwhile has the last word.
func (p *Scope) writeMarks(ctx context.Context, node *corev1.Node, annotations, spec map[string]any) error {
	body := map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion, "annotations": annotations,
	}}
	if len(spec) > 0 {
		body["spec"] = spec
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return p.patchNode(ctx, node, types.MergePatchType, raw)
}
