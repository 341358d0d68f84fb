package simulation

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// CacheNarrowed means that the cache that a process has of one kind leaves out the objects with a label, as one with cache.ByObject and a
// selector does. People put the label on objects and on the template, and take it off again; some Nodes register with it. An object that
// gets the label is removed from the cache, and one that loses it is added.
const CacheNarrowed Fault = "cache narrowed"

// elsewhereLabel is on the objects that narrowed caches leave out.
const elsewhereLabel = "example.com/elsewhere"

// narrowing is which caches are narrowed in a history.
type narrowing struct {
	kind string
	// of has, by process, whether its cache is narrowed: none is before the history has begun.
	of [2]bool
	// template: that of the root has the label.
	template bool
}

// drawNarrowing decides whether caches of a history are narrowed, and of which kind; a history without has none of that fault.
func (w *World) drawNarrowing() *narrowing {
	if !w.has(CacheNarrowed) || w.choices.pick(2) == 0 {
		w.hasNone(CacheNarrowed)
		return nil
	}
	kinds := []string{"Node", "Machine", "MachineSet"}
	if w.pool != nil {
		kinds = kinds[:1]
	}
	return &narrowing{kind: oneOf(w, kinds...)}
}

// beginNarrowing narrows the cache of a process, or of both. In half of the histories the template has the label already.
func (w *World) beginNarrowing(ctx context.Context) {
	if w.narrow == nil {
		return
	}
	w.narrowTo(oneOf(w, [2]bool{true, true}, [2]bool{true, false}, [2]bool{false, true}))
	if w.choices.pick(2) == 1 {
		w.labelsTemplate(ctx)
	}
}

// narrowTo narrows the caches of some processes, which all start anew.
func (w *World) narrowTo(of [2]bool) {
	w.narrow.of = of
	w.note("user", fmt.Sprintf("narrows the caches of %ss: %v", w.narrow.kind, of), "")
	for _, p := range w.processes {
		w.startAnew(p)
	}
}

// narrows changes what the caches leave out: of one object, of the template, or of a process.
func (w *World) narrows(ctx context.Context) {
	switch w.choices.pick(6) {
	case 0:
		w.narrowTo([2]bool{w.choices.pick(2) == 0, w.choices.pick(2) == 0})
	case 1:
		w.labelsTemplate(ctx)
	default:
		if obj := oneOf(w, w.Objects(w.narrow.kind)...); obj != nil {
			w.patch(ctx, obj, labelPatch(elsewhereLabel, orNothing(!labels.Set(obj.GetLabels()).Has(elsewhereLabel))))
		}
	}
}

// labelsTemplate puts the label into the template of an owner, or takes it out of it: a deployment and a set change it in place.
func (w *World) labelsTemplate(ctx context.Context) {
	if o := w.chosen((*owner).hasSets); o != nil && w.narrow.kind != "Node" {
		w.narrow.template = !w.narrow.template
		w.patch(ctx, o.named(), patchOf(orNothing(w.narrow.template), "spec", "template", "metadata", "labels", elsewhereLabel))
	}
}

// leavesOut reports whether the cache of a process leaves an object out; of a narrowing that is nil too.
func (n *narrowing) leavesOut(p *process, obj *unstructured.Unstructured) bool {
	return n != nil && obj.GetKind() == n.kind && n.of[p.number] && labels.Set(obj.GetLabels()).Has(elsewhereLabel)
}

// sent returns what the watch of a process sends for an event of the API server: an object that the selector does not match any more
// is removed, and of one that it did not match before either there is only a bookmark, now and then.
func (w *World) sent(p *process, e change, before *unstructured.Unstructured) []change {
	switch hidden := w.narrow.leavesOut(p, e.object); {
	case !hidden:
		return []change{e}
	case before != nil && !w.narrow.leavesOut(p, before):
		return []change{{object: e.object, removed: true}}
	case w.choices.pick(3) == 0:
		return []change{{object: e.object, bookmark: true}}
	}
	return nil
}

// shown are the objects of a kind that the cache of a process has once it is not behind.
func (w *World) shown(p *process, gvk schema.GroupVersionKind) []*unstructured.Unstructured {
	session := p.view.kinds[gvk.GroupKind()].session
	return slices.DeleteFunc(w.Objects(gvk.Kind), func(obj *unstructured.Unstructured) bool {
		return w.narrow.leavesOut(p, obj) || !session.shows(w.clusterWith(obj))
	})
}

// unknown is how many Machines a plan for a set may lack: those that the cache leaves out and that are being deleted, or of other
// sets.
func (o *owner) unknown(set types.UID) int {
	w := o.world
	return len(slices.DeleteFunc(o.owned(), func(m *unstructured.Unstructured) bool {
		return w.acting == nil || !w.narrow.leavesOut(w.acting, m) || m.GetDeletionTimestamp() == nil && metav1.GetControllerOf(m).UID == set
	}))
}

// replicasIn is the replicas of a set; 0 without a set.
func replicasIn(set *unstructured.Unstructured) int64 {
	if set == nil {
		return 0
	}
	n, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	return n
}
