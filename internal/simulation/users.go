package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
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

// scales, rollsOut, strips and deletes are what users do.
func (w *World) scales(ctx context.Context) {
	if w.root() == nil {
		return
	}
	n := w.choices.pick(6)
	if w.pool != nil && n > 3 {
		n = 0 // a pool at zero is a case of its own
	}
	if w.pool != nil && w.pool.elsewhere {
		w.pool.wanted = n // the provider scales, as something else wants
		return
	}
	w.patch(ctx, named(w.scene.kind), fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

// rollsOut asks for a new revision, or for one of before.
func (w *World) rollsOut(ctx context.Context) {
	if w.root() == nil {
		return
	}
	next := w.choices.pick(w.scene.revision + 2)
	w.scene.revision = max(w.scene.revision, next)
	from := ""
	if w.parts && w.pool == nil {
		w.fail("a template can be written", w.addPartTemplate(ctx, next))
		from = fmt.Sprintf(`,"infrastructureRef":{"name":%q}`, partTemplateName(next))
	}
	if w.provided != nil {
		from += fmt.Sprintf(`,"bootstrap":{"configRef":{"name":%q}}`, partTemplateName(next))
	}
	w.patch(ctx, named(w.scene.kind), fmt.Sprintf(
		`{"spec":{"template":{"metadata":{"labels":{%q:"%d"}},"spec":{"version":"v1.36.%d"%s}}}}`, revisionLabel, next, next, from))
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
	if _, paused := obj.GetAnnotations()[contract.PausedAnnotation]; paused {
		w.patch(ctx, obj, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, contract.PausedAnnotation))
		return
	}
	w.patch(ctx, obj, fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, contract.PausedAnnotation))
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
		w.patch(ctx, m, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, hook))
		return
	}
	w.patch(ctx, m, fmt.Sprintf(`{"metadata":{"annotations":{%q:"example"}}}`, hook))
}

// ours are the objects of the operator's kinds, the last kind first: owners come after what they own.
func (w *World) ours() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, k := range slices.Backward(w.kinds) {
		all = append(all, w.Objects(k.GVK.Kind)...)
	}
	return all
}

// goesOn takes every pause and every hook away.
func (w *World) goesOn(ctx context.Context) {
	for _, obj := range w.ours() {
		for _, name := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
			if name == contract.PausedAnnotation || strings.HasSuffix(name, "/example") {
				w.patch(ctx, obj, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, name))
			}
		}
	}
}

// deletesSet deletes a MachineSet of the deployment, with one of the propagation policies.
func (w *World) deletesSet(ctx context.Context) {
	all := w.Objects("MachineSet")
	if w.scene.kind != "MachineDeployment" || len(all) == 0 {
		return
	}
	set := all[w.choices.pick(len(all))]
	if slices.Contains(set.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		w.scene.again = true
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
		if strings.Contains(messages(obj), children.RestoredAnnotation+" to "+uid) && obj.GetAnnotations()[children.RestoredAnnotation] != uid {
			w.patch(ctx, obj, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, children.RestoredAnnotation, uid))
		}
	}
}
