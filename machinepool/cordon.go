package machinepool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// CordonedAnnotation of a Node is the time when a pool cordoned it, because its instance leaves. The patch that cordons a Node sets it,
// and only applies to a Node that is not cordoned: a Node without it stays as it is when its instance stays after all.
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

// marks are what a Node says of its leaving. contract.DrainStartedAnnotation says since when it is drained: others may go first.
func marks() []string {
	return []string{CordonedAnnotation, contract.DrainStartedAnnotation, contract.DrainedAnnotation}
}

// cordonPatch cordons a Node and says so on it, and that its drain begins if that is so.
func cordonPatch(node *corev1.Node, now time.Time, begins bool) []operation {
	keys := marks()[:1]
	if begins {
		keys = marks()[:2]
	}
	cordons := []operation{{"test", "/metadata/uid", node.UID}, {"test", unschedulable, nil}, {"add", unschedulable, true}}
	return slices.Concat(cordons, sayPatch(node, now, keys...))
}

// sayPatch has annotations of a Node say when something was.
func sayPatch(node *corev1.Node, at time.Time, keys ...string) []operation {
	var ops []operation
	if len(node.Annotations) == 0 {
		ops = append(ops, operation{"test", "/metadata/annotations", nil}, operation{"add", "/metadata/annotations", struct{}{}})
	}
	for _, key := range keys {
		ops = append(ops, operation{"add", annotationPath(key), at.UTC().Format(time.RFC3339)})
	}
	return ops
}

// takeBackPatch removes what a Node says of its leaving, and the cordon if that is the pool's own.
func takeBackPatch(node *corev1.Node) []operation {
	ops := []operation{{"test", "/metadata/uid", node.UID}}
	for _, key := range marks() {
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
	return slices.ContainsFunc(marks(), func(key string) bool {
		_, found := node.Annotations[key]
		return found
	})
}

// begun is when the drain of a Node began: when its turn came, which may be long after it was cordoned. Where there is a limit the Node
// says so itself, so that every process counts from there.
func (p *Scope) begun(ctx context.Context, node *corev1.Node, since time.Time, limit time.Duration) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, node.Annotations[contract.DrainStartedAnnotation]); err == nil {
		return at, nil
	}
	if limit <= 0 || p.env.frame.Writer.Behind(node) {
		return since, nil
	}
	ops := slices.Concat([]operation{{"test", "/metadata/uid", node.UID}}, sayPatch(node, since, contract.DrainStartedAnnotation))
	return since, p.operate(ctx, node, ops)
}

// cordon has no more pods come to Nodes, in one patch for each that needs it. The drains of the first ones begin now.
func (p *Scope) cordon(ctx context.Context, nodes []*corev1.Node, begin int) error {
	var open []*corev1.Node
	first := map[types.UID]bool{}
	for i, node := range nodes {
		if !node.Spec.Unschedulable && !p.env.frame.Writer.Behind(node) {
			open = append(open, node)
			first[node.UID] = i < begin
		}
	}
	return p.each(len(open), func(i int) error {
		return p.operate(ctx, open[i], cordonPatch(open[i], p.Now, first[open[i].UID]))
	})
}

// takeBack has Nodes that were to leave serve again. Who is to leave must be known for that, from the API server itself: a provider may
// have read already that a Node was drained.
func (p *Scope) takeBack(ctx context.Context, nodes []*corev1.Node) error {
	var marked []*corev1.Node
	known := p.infraRead || p.infrastructure.Presence == external.NotReferenced
	for _, node := range byRefusal(nodes, p.mem().refused) {
		if known && !p.env.frame.Writer.Behind(node) && len(marked) < maxNodeWrites {
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
		p.Requeue(atOnce)
	}
	for _, node := range marked {
		delete(p.mem().drained, node.UID)
		delete(p.mem().confirmed, node.UID)
	}
	return p.eachNode(marked, func(node *corev1.Node) error {
		if !hasMark(node) {
			return nil // it was only remembered
		}
		return p.operate(ctx, node, takeBackPatch(node))
	})
}

// operate sends a Node a JSON patch.
func (p *Scope) operate(ctx context.Context, node *corev1.Node, ops []operation) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	return p.patchNode(ctx, node, types.JSONPatchType, body)
}

// sayDrained tells the provider, on the Node, that the instance may go.
func (p *Scope) sayDrained(ctx context.Context, node *corev1.Node) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]string{contract.DrainedAnnotation: string(node.UID)},
	}})
	if err != nil {
		return err
	}
	return p.patchNode(ctx, node, types.MergePatchType, body)
}
