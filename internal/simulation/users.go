package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// patch is what a user does to an object; an empty one is none.
func (w *World) patch(ctx context.Context, obj *unstructured.Unstructured, body string) {
	w.patchAs(ctx, "user", obj, body)
}

// patchAs is what somebody does to an object.
func (w *World) patchAs(ctx context.Context, who string, obj *unstructured.Unstructured, body string) {
	if body != "" {
		err := patchTo(ctx, w.clientOf(obj), obj.DeepCopy(), body)
		w.note(who, "patch "+obj.GetKind()+" "+obj.GetName()+" "+body, textOf(err))
	}
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v) // of texts and numbers
	return string(text)
}

// scaled sets another number of Machines: often none, and often as many as before.
func (o *owner) scaled() string {
	n, pool := o.world.choices.pick(6), o.world.pool
	if o.kind == poolKind && n > 3 {
		n = 0 // a pool at zero is a case of its own
	}
	if o.kind == poolKind && pool.elsewhere {
		pool.wanted = n // the provider scales, for a reason of its own
		return ""
	}
	return patchOf(n, "spec", "replicas")
}

// rolledOutOrBack sets a new revision, or one of before.
func (o *owner) rolledOutOrBack() string { return o.rolledOut(o.world.choices.pick(o.revision + 2)) }

func (o *owner) rolledOut(next int) string {
	w, spec := o.world, map[string]any{"version": fmt.Sprintf("v1.36.%d", next)}
	o.revision = max(o.revision, next)
	if named := map[string]any{"name": o.templateName(next)}; w.parts && o.kind != poolKind {
		if !o.blocked {
			w.fail("a template can be written", o.addTemplates(w.ctx, next))
		}
		if spec["infrastructureRef"] = named; w.provided != nil {
			spec["bootstrap"] = map[string]any{"configRef": named}
		}
	}
	labels := map[string]any{revisionLabel: fmt.Sprint(next)}
	return patchOf(map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec}, "spec", "template")
}

// rolledBack requests the template of an earlier revision, or of the one before.
func (o *owner) rolledBack() string {
	return annotate(contract.RollbackToAnnotation, fmt.Sprint(o.world.choices.pick(o.revision+1)))
}

// rolledOutAfter requests new Machines although the template stays: now, in a minute, or not any more.
func (o *owner) rolledOutAfter() string {
	after := any(o.world.Now().Add(time.Duration(o.world.choices.pick(2)) * time.Minute).UTC().Format(time.RFC3339))
	if o.world.choices.pick(4) == 0 {
		after = nil
	}
	return patchOf(after, "spec", "rollout", "after")
}

// pausedOrNot pauses a rollout, or continues it.
func (o *owner) pausedOrNot() string {
	return patchOf(textAt(o.stored(), "spec", "paused") != "true", "spec", "paused")
}

// withoutTemplates sets a revision whose templates do not exist.
func (o *owner) withoutTemplates() string {
	if !o.world.parts {
		return ""
	}
	o.blocked = true
	return o.rolledOut(o.revision + 1)
}

// autoscaled is what cluster-autoscaler does: it marks a Machine and lowers the replicas of its owner, or takes a mark back. It may be
// ended between the two requests.
func (o *owner) autoscaled() string {
	w, owned := o.world, o.owned()
	for _, m := range owned {
		if has(m, scale.DeleteAnnotation) {
			w.patch(w.ctx, m, annotate(scale.DeleteAnnotation, nil))
			return ""
		}
	}
	m := oneOf(w, slices.DeleteFunc(owned, func(m *unstructured.Unstructured) bool { return m.GetDeletionTimestamp() != nil })...)
	if m == nil || o.desired() == 0 {
		return ""
	}
	w.patch(w.ctx, m, annotate(scale.DeleteAnnotation, w.Now().String()))
	if n := o.desired(); n > 0 && w.choices.pick(4) > 0 {
		return patchOf(n-1, "spec", "replicas")
	}
	return ""
}

// isYoung reports whether a Machine has not recorded its instance, or one of the leaders has no such Node in its cache: the hardest to end.
func (w *World) isYoung(m *unstructured.Unstructured) bool {
	node := w.nodeOf(m)
	for i, p := range w.processes {
		if node != nil && w.leads[i] && p.nodesFor(m).ByName(node.GetName()) == nil {
			return true
		}
	}
	return providerIDIn(m) == ""
}

// ours are the objects of the operator's kinds, the last kind first: owners come after what they own.
func (w *World) ours() (all []*unstructured.Unstructured) {
	for _, k := range slices.Backward(w.kinds) {
		all = append(all, w.Objects(k.GVK.Kind)...)
	}
	return all
}

// unpauses is the person who has every process cache all objects once the faults have stopped, takes every pause and every hook away,
// continues rollouts, creates what templates are missing and names the right cluster.
func (w *World) unpauses(ctx context.Context) {
	if w.narrow != nil {
		w.narrowTo([2]bool{})
	}
	for _, obj := range w.ours() {
		w.frees(ctx, obj)
	}
	for _, o := range w.owners {
		if o.deploys() && !o.leaves() {
			w.patch(ctx, o.named(), patchOf(false, "spec", "paused"))
		}
		for revision := 0; o.blocked && !o.leaves() && revision <= o.revision; revision++ {
			w.fail("a template can be written", o.addTemplates(ctx, revision))
		}
		o.blocked = o.blocked && o.leaves()
		if o.elsewhere = !o.leaves() && textAt(o.stored(), "spec", "clusterName") == "c9"; o.elsewhere { // a backup may have it
			w.patch(ctx, o.named(), o.elsewhereOrBack())
		}
	}
}

// frees takes pauses and hooks away from an object, and deletes what was made for the wrong cluster, where nothing answers for its Node.
func (w *World) frees(ctx context.Context, obj *unstructured.Unstructured) {
	for _, name := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		if name == contract.PausedAnnotation || strings.HasSuffix(name, "/example") {
			w.patch(ctx, obj, annotate(name, nil))
		}
	}
	isRoot := slices.ContainsFunc(w.owners, func(o *owner) bool { return o.stored() != nil && o.stored().GetUID() == obj.GetUID() })
	if textAt(obj, "spec", "clusterName") == "c9" && isAmong("Machine MachineSet", obj) && !isRoot { // somebody may have taken its owner
		limits := map[string]any{"nodeDrainTimeoutSeconds": 1, "nodeVolumeDetachTimeoutSeconds": 1, "nodeDeletionTimeoutSeconds": 1}
		w.patch(ctx, obj, patchOf(limits, "spec", "deletion"))
		w.deletes(obj, ", which is of the wrong cluster")
	}
	if w.isPruned(obj) { // a write that changed nothing has woken nobody
		w.patch(ctx, obj, annotate("example.com/kept-again", ""))
	}
}

// elsewhereOrBack names another cluster, or the right one again.
func (o *owner) elsewhereOrBack() string {
	name := o.world.clusterOf(o.namespace).name
	if o.elsewhere = !o.elsewhere; o.elsewhere {
		name = "c9"
	}
	named := map[string]any{"clusterName": name}
	return patchOf(map[string]any{"clusterName": name, "template": map[string]any{"spec": named}}, "spec")
}
