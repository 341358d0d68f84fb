package machinepool

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// CordonedAnnotation of a Node says since when a pool keeps pods from it, because its instance leaves. The patch that cordons a Node sets
// it, and applies only while nobody has cordoned it: a Node without it stays as it is when its instance stays after all.
const CordonedAnnotation = "machinist.dev/cordoned-by-pool-since"

// operation is one operation of RFC 6902. A nil value is expected as null, which is what is absent too.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const unschedulable = "/spec/unschedulable"

func annotationPath(key string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// cordonPatch cordons a Node and says so on it.
func cordonPatch(node *corev1.Node, now time.Time) []operation {
	ops := []operation{{"test", "/metadata/uid", node.UID}, {"test", unschedulable, nil}, {"add", unschedulable, true}}
	if len(node.Annotations) == 0 {
		ops = append(ops, operation{"test", "/metadata/annotations", nil}, operation{"add", "/metadata/annotations", struct{}{}})
	}
	return append(ops, operation{"add", annotationPath(CordonedAnnotation), now.UTC().Format(time.RFC3339)})
}

// takeBackPatch removes what a Node says of its leaving, and the cordon if that is the pool's own.
func takeBackPatch(node *corev1.Node) []operation {
	ops := []operation{{"test", "/metadata/uid", node.UID}}
	for _, key := range []string{CordonedAnnotation, contract.DrainedAnnotation} {
		if value, found := node.Annotations[key]; found {
			ops = append(ops, operation{"test", annotationPath(key), value}, operation{Op: "remove", Path: annotationPath(key)})
		}
	}
	if _, ours := node.Annotations[CordonedAnnotation]; ours && node.Spec.Unschedulable {
		ops = append(ops, operation{"test", unschedulable, true}, operation{Op: "remove", Path: unschedulable})
	}
	return ops
}

// hasMark reports whether a Node says that it was to leave.
func hasMark(node *corev1.Node) bool {
	_, cordoned := node.Annotations[CordonedAnnotation]
	_, drained := node.Annotations[contract.DrainedAnnotation]
	return cordoned || drained
}

// cordonedAt is when the pool cordoned a Node, or otherwise if it did not.
func cordonedAt(node *corev1.Node, otherwise time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, node.Annotations[CordonedAnnotation])
	if err != nil {
		return otherwise
	}
	return at
}

// cordon has no more pods come to Nodes, in one patch for each that needs it.
func (p *pass) cordon(ctx context.Context, nodes []*corev1.Node) error {
	var open []*corev1.Node
	for _, node := range nodes {
		if !node.Spec.Unschedulable && !p.env.writer.Behind(node) {
			open = append(open, node)
		}
	}
	return p.each(len(open), func(i int) error { return p.operate(ctx, open[i], cordonPatch(open[i], p.now)) })
}

// takeBack has Nodes that were to leave serve again. Who is to leave must be known for that, from the API server itself: a provider may
// have read already that a Node was drained.
func (p *pass) takeBack(ctx context.Context, nodes []*corev1.Node) error {
	var marked []*corev1.Node
	known := p.infraRead || p.infrastructure.Presence == external.NotReferenced
	for _, node := range nodes {
		if known && !p.env.writer.Behind(node) && len(marked) < maxNodeWrites {
			marked = append(marked, node)
		}
	}
	if len(marked) == 0 {
		return nil
	}
	if current, err := p.infrastructureIsCurrent(ctx); err != nil || !current {
		return err
	}
	if len(marked) == maxNodeWrites {
		p.requeue(atOnce)
	}
	for _, node := range marked {
		delete(p.mem().drained, node.UID)
		delete(p.mem().confirmed, node.UID)
	}
	return p.each(len(marked), func(i int) error {
		if !hasMark(marked[i]) {
			return nil // it was only remembered
		}
		return p.operate(ctx, marked[i], takeBackPatch(marked[i]))
	})
}

// operate sends a Node a JSON patch.
func (p *pass) operate(ctx context.Context, node *corev1.Node, ops []operation) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	return p.patchNode(ctx, node, types.JSONPatchType, body)
}

// sayDrained tells the provider, on the Node, that the instance may go.
func (p *pass) sayDrained(ctx context.Context, node *corev1.Node) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]string{contract.DrainedAnnotation: string(node.UID)},
	}})
	if err != nil {
		return err
	}
	return p.patchNode(ctx, node, types.MergePatchType, body)
}
