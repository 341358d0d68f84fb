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
)

// CordonedAnnotation of a Node is the time when a pool cordoned it, because its instance was about to leave. The patch that cordons a Node
// sets it, and only applies to a Node that is not cordoned. A Node without it is not uncordoned when its instance stays.
const CordonedAnnotation = "machinist.dev/cordoned-by-pool-since"

// operation is one operation of RFC 6902. A nil value means null, and for a test also an absent value.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const unschedulable = "/spec/unschedulable"

func annotationPath(key string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// marks are the annotations of a Node that leaves. contract.DrainStartedAnnotation is when its drain began, which may be after it was
// cordoned.
func marks() []string {
	return []string{CordonedAnnotation, contract.DrainStartedAnnotation, contract.DrainedAnnotation}
}

// cordonPatch cordons a Node and records that in an annotation, and also the begin of its drain if begins is true. A Node that was drained
// and uncordoned since loses the marks of that drain.
func cordonPatch(node *corev1.Node, now time.Time, begins bool) []operation {
	keys := marks()[:1]
	if begins {
		keys = marks()[:2]
	}
	cordons := []operation{{"test", "/metadata/uid", node.UID}, {"test", unschedulable, nil}, {"add", unschedulable, true}}
	if _, drained := node.Annotations[contract.DrainedAnnotation]; drained {
		cordons = append(cordons, unmark(node, marks()[1:]...)...)
	}
	return slices.Concat(cordons, sayPatch(node, now, keys...))
}

// sayPatch sets annotations of a Node to a time.
func sayPatch(node *corev1.Node, at time.Time, keys ...string) []operation {
	return annotate(node, at.UTC().Format(time.RFC3339), keys...)
}

// annotate sets annotations of a Node to a value.
func annotate(node *corev1.Node, value string, keys ...string) []operation {
	var ops []operation
	if len(node.Annotations) == 0 {
		ops = append(ops, operation{"test", "/metadata/annotations", nil}, operation{"add", "/metadata/annotations", struct{}{}})
	}
	for _, key := range keys {
		ops = append(ops, operation{"add", annotationPath(key), value})
	}
	return ops
}

// unmark removes annotations of a Node, if they are as they were read.
func unmark(node *corev1.Node, keys ...string) (ops []operation) {
	for _, key := range keys {
		if value, found := node.Annotations[key]; found {
			ops = append(ops, operation{"test", annotationPath(key), value}, operation{Op: "remove", Path: annotationPath(key)})
		}
	}
	return ops
}

// takeBackPatch removes the marks of a Node, and uncordons it if the pool cordoned it.
func takeBackPatch(node *corev1.Node) []operation {
	ops := append([]operation{{"test", "/metadata/uid", node.UID}}, unmark(node, marks()...)...)
	if _, ours := node.Annotations[CordonedAnnotation]; ours && node.Spec.Unschedulable {
		ops = append(ops, operation{"test", unschedulable, true}, operation{Op: "remove", Path: unschedulable})
	}
	return ops
}

// hasMark reports whether a Node has a mark.
func hasMark(node *corev1.Node) bool {
	return slices.ContainsFunc(marks(), func(key string) bool {
		_, found := node.Annotations[key]
		return found
	})
}

// begun returns when the drain of a Node began: its first turn, which may be long after it was cordoned. Where the drain has a limit, an
// annotation of the Node records the time, so that every process counts from it. A drain whose recorded begin is yet to come begins anew,
// in the annotation too: people and programs read it.
func (p *Scope) begun(ctx context.Context, node *corev1.Node, since time.Time, limit time.Duration) (time.Time, error) {
	at := timeIn(node.Annotations, contract.DrainStartedAnnotation)
	switch {
	case contract.IsAhead(at, p.Now):
		since = p.Now // what this process remembers may be by the clock that was wrong
	case !at.IsZero():
		return at, nil
	case limit <= 0:
		return since, nil
	}
	if p.env.frame.Writer.Behind(node) {
		return since, nil
	}
	ops := slices.Concat([]operation{{"test", "/metadata/uid", node.UID}}, sayPatch(node, since, contract.DrainStartedAnnotation))
	return since, p.operate(ctx, node, ops)
}

// cordon cordons Nodes, in one patch for each that needs it. The drains of the first ones begin now.
func (p *Scope) cordon(ctx context.Context, nodes []*corev1.Node, begin int) error {
	first := uidsOf(nodes[:min(begin, len(nodes))])
	open := slices.DeleteFunc(p.notBehind(nodes), func(node *corev1.Node) bool { return node.Spec.Unschedulable })
	return p.eachNode(open, func(node *corev1.Node) error {
		return p.operate(ctx, node, cordonPatch(node, p.Now, first.Has(node.UID)))
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

// drainedPatch records on a Node that it was drained, if it still has the marks with which it was read: they go when the Node is to stay,
// and then pods are on it again.
func drainedPatch(node *corev1.Node) []operation {
	ops := []operation{{"test", "/metadata/uid", node.UID}}
	if node.Spec.Unschedulable {
		ops = append(ops, operation{"test", unschedulable, true})
	}
	for _, key := range marks()[:2] {
		if value, found := node.Annotations[key]; found {
			ops = append(ops, operation{"test", annotationPath(key), value})
		}
	}
	return slices.Concat(ops, annotate(node, string(node.UID), contract.DrainedAnnotation))
}

// sayDrained records on a Node that it was drained, for the provider, which may then delete the instance.
func (p *Scope) sayDrained(ctx context.Context, node *corev1.Node) error {
	return p.operate(ctx, node, drainedPatch(node))
}
