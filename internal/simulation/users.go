package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// patch is what a user does to an object.
func (w *World) patch(ctx context.Context, obj *unstructured.Unstructured, body string) {
	w.patchAs(ctx, "user", obj, body)
}

// patchAs is what somebody does to an object.
func (w *World) patchAs(ctx context.Context, who string, obj *unstructured.Unstructured, body string) {
	into := &unstructured.Unstructured{}
	into.SetGroupVersionKind(obj.GroupVersionKind())
	into.SetNamespace(obj.GetNamespace())
	into.SetName(obj.GetName())
	err := w.store.Client().Patch(ctx, into, client.RawPatch(types.MergePatchType, []byte(body)))
	w.note(who, "patch "+obj.GetKind()+" "+obj.GetName()+" "+body, said(err))
}

// scales is the user who wants another number of Machines: often none, and often as many as before.
func (w *World) scales(ctx context.Context) {
	o := w.chosen((*owner).hasReplicas)
	if o == nil {
		return
	}
	n := w.choices.pick(6)
	if o.kind == poolKind && n > 3 {
		n = 0 // a pool at zero is a case of its own
	}
	if o.kind == poolKind && w.pool.elsewhere {
		w.pool.wanted = n // the provider scales, as something else wants
		return
	}
	w.patch(ctx, o.named(), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

// rollsOut asks for a new revision, or for one of before.
func (w *World) rollsOut(ctx context.Context) {
	if o := w.chosen((*owner).hasReplicas); o != nil {
		o.rollOut(ctx, w.choices.pick(o.revision+2))
	}
}

func (o *owner) rollOut(ctx context.Context, next int) {
	w, from := o.world, ""
	o.revision = max(o.revision, next)
	if w.parts && o.kind != poolKind {
		if !o.blocked {
			w.fail("a template can be written", o.addTemplates(ctx, next))
		}
		from = fmt.Sprintf(`,"infrastructureRef":{"name":%q}`, o.templateName(next))
	}
	if w.provided != nil && o.kind != poolKind {
		from += fmt.Sprintf(`,"bootstrap":{"configRef":{"name":%q}}`, o.templateName(next))
	}
	w.patch(ctx, o.named(), fmt.Sprintf(
		`{"spec":{"template":{"metadata":{"labels":{%q:"%d"}},"spec":{"version":"v1.36.%d"%s}}}}`, revisionLabel, next, next, from))
}

// rollsBack asks for the template of an earlier revision, or of the one before.
func (w *World) rollsBack(ctx context.Context) {
	if o := w.chosen((*owner).deploys); o != nil {
		w.patch(ctx, o.named(), annotate(contract.RollbackToAnnotation, fmt.Sprint(w.choices.pick(o.revision+1))))
	}
}

// rollsOutAfter asks for new Machines although the template stays: now, in a minute, or not any more.
func (w *World) rollsOutAfter(ctx context.Context) {
	o := w.chosen((*owner).deploys)
	if o == nil {
		return
	}
	after := any(w.Now().Add(time.Duration(w.choices.pick(2)) * time.Minute).UTC().Format(time.RFC3339))
	if w.choices.pick(4) == 0 {
		after = nil
	}
	w.patch(ctx, o.named(), jsonOf(map[string]any{"spec": map[string]any{"rollout": map[string]any{"after": after}}}))
}

// pausesRollout holds the rollout of a deployment up, or lets it go on.
func (w *World) pausesRollout(ctx context.Context) {
	if o := w.chosen((*owner).deploys); o != nil {
		paused, _, _ := unstructured.NestedBool(o.stored().Object, "spec", "paused")
		w.patch(ctx, o.named(), fmt.Sprintf(`{"spec":{"paused":%t}}`, !paused))
	}
}

// autoscales is cluster-autoscaler, which marks a Machine and lowers the replicas of its owner, or takes a mark back. It may be ended
// between the two requests.
func (w *World) autoscales(ctx context.Context) {
	o := w.chosen((*owner).hasSets)
	if o == nil {
		return
	}
	var candidates []*unstructured.Unstructured
	for _, m := range o.owned() {
		if _, marked := m.GetAnnotations()[scale.DeleteAnnotation]; marked {
			w.patch(ctx, m, annotate(scale.DeleteAnnotation, nil))
			return
		}
		if m.GetDeletionTimestamp() == nil {
			candidates = append(candidates, m)
		}
	}
	if len(candidates) == 0 || o.desired() == 0 {
		return
	}
	w.patch(ctx, candidates[w.choices.pick(len(candidates))], annotate(scale.DeleteAnnotation, w.Now().String()))
	if n := o.desired(); n > 0 && w.choices.pick(4) > 0 {
		w.patch(ctx, o.named(), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n-1))
	}
}

// annotate is the patch that sets an annotation, or removes it with nil.
func annotate(name string, value any) string {
	return jsonOf(map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}})
}

// deletesOutdated is the user of a deployment with OnDelete once the faults have stopped. A deployment that does not replace a Machine by one
// of its new template gets another chance after a minute.
func (w *World) deletesOutdated(ctx context.Context) {
	for _, o := range w.owners {
		for _, m := range o.owned() {
			if o.strategy == rollout.OnDelete && !o.leaves() && m.GetDeletionTimestamp() == nil && o.isOutdated(m) &&
				w.Now().Sub(m.GetCreationTimestamp().Time) >= time.Minute {
				w.note("user", "delete Machine "+m.GetName()+", which is outdated", said(w.store.Client().Delete(ctx, m.DeepCopy())))
			}
		}
	}
}

func (w *World) strips(ctx context.Context) {
	all := append(w.Objects("MachineDeployment"), w.Objects("MachineSet")...)
	if len(all) > 0 {
		w.patch(ctx, all[w.choices.pick(len(all))], `{"metadata":{"annotations":null}}`)
	}
}

func (w *World) deletes(ctx context.Context) {
	all := w.owned()
	if young := slices.DeleteFunc(w.owned(), func(m *unstructured.Unstructured) bool { return !w.isYoung(m) }); len(young) > 0 &&
		w.choices.pick(2) == 1 {
		all = young
	}
	if len(all) > 0 {
		m := all[w.choices.pick(len(all))]
		w.note("user", "delete Machine "+m.GetName(), said(w.store.Client().Delete(ctx, m.DeepCopy())))
	}
}

// isYoung reports whether a Machine has not recorded its instance, or one of the leaders does not see its Node: the hardest to end.
func (w *World) isYoung(m *unstructured.Unstructured) bool {
	node := w.nodeOf(m)
	for i, p := range w.processes {
		if node != nil && w.leads[i] && (nodes{p.view}).ByName(node.Name) == nil {
			return true
		}
	}
	return providerIDIn(m) == ""
}

// pauses is the user who pauses an object, or lets it go on.
func (w *World) pauses(ctx context.Context) {
	all := w.ours()
	if len(all) == 0 {
		return
	}
	obj := all[w.choices.pick(len(all))]
	if isPaused(obj) {
		w.patch(ctx, obj, annotate(contract.PausedAnnotation, nil))
		return
	}
	w.patch(ctx, obj, annotate(contract.PausedAnnotation, ""))
}

// hooks is another program that has a Machine wait before its drain or before its end, or lets it go on.
func (w *World) hooks(ctx context.Context) {
	all := w.owned()
	if len(all) == 0 {
		return
	}
	m := all[w.choices.pick(len(all))]
	hook := []string{contract.PreDrainHook, contract.PreTerminateHook}[w.choices.pick(2)] + "/example"
	if _, set := m.GetAnnotations()[hook]; set {
		w.patch(ctx, m, annotate(hook, nil))
		return
	}
	w.patch(ctx, m, annotate(hook, "example"))
}

// ours are the objects of the operator's kinds, the last kind first: owners come after what they own.
func (w *World) ours() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, k := range slices.Backward(w.kinds) {
		all = append(all, w.Objects(k.GVK.Kind)...)
	}
	return all
}

// goesOn takes every pause and every hook away, and lets rollouts go on.
func (w *World) goesOn(ctx context.Context) {
	for _, obj := range w.ours() {
		for _, name := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
			if name == contract.PausedAnnotation || strings.HasSuffix(name, "/example") {
				w.patch(ctx, obj, annotate(name, nil))
			}
		}
	}
	for _, o := range w.owners {
		if o.deploys() && !o.leaves() {
			w.patch(ctx, o.named(), `{"spec":{"paused":false}}`)
		}
	}
	w.putsRight(ctx)
}

// deletesSet deletes a MachineSet of the deployment, with one of the propagation policies.
func (w *World) deletesSet(ctx context.Context) {
	all := slices.DeleteFunc(w.Objects("MachineSet"), func(set *unstructured.Unstructured) bool {
		o := w.ownerOf(set)
		return o == nil || !o.deploys()
	})
	if len(all) == 0 {
		return
	}
	set := all[w.choices.pick(len(all))]
	if slices.Contains(set.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		w.ownerOf(set).again = true
	}
	policy := []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	}[w.choices.pick(3)]
	w.note("user", fmt.Sprintf("delete MachineSet %s --cascade=%s", set.GetName(), strings.ToLower(string(policy))),
		said(w.store.Client().Delete(ctx, set.DeepCopy(), client.PropagationPolicy(policy))))
}

// confirmRestored is the person who does what an owner asks for: one without its ledger that once had children does not know whether they
// are yet to come.
func (w *World) confirmRestored(ctx context.Context) {
	for _, obj := range append(w.Objects("MachineDeployment"), w.Objects("MachineSet")...) {
		uid := string(obj.GetUID())
		if !isMisplaced(obj) && strings.Contains(messages(obj), children.RestoredAnnotation+" to "+uid) && obj.GetAnnotations()[children.RestoredAnnotation] != uid {
			w.patch(ctx, obj, annotate(children.RestoredAnnotation, uid))
		}
	}
}
