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
)

// Faults of people who edit objects by hand.
const (
	// UserTakesFinalizers, UserTakesLabels, UserTakesAnnotations and UserTakesOwners: a person removes these from an object.
	UserTakesFinalizers  Fault = "user takes finalizers"
	UserTakesLabels      Fault = "user takes labels"
	UserTakesAnnotations Fault = "user takes annotations"
	UserTakesOwners      Fault = "user takes owner references"
	// UserReplaces: a person replaces an object by an earlier version of itself.
	UserReplaces Fault = "user replaces by an old object"
	// UserDeletesAnything: a person deletes an object that is no root, with one of the propagation policies.
	UserDeletesAnything Fault = "user deletes anything"
)

// edit is what a person does to one object: a row of a table.
type edit struct {
	fault Fault
	kinds []string // nil are all that processes cache
	// of says of which objects one is chosen.
	of func(*World, *unstructured.Unstructured) bool
	// patch returns a merge patch. do is what is none.
	patch func(*World, *unstructured.Unstructured) map[string]any
	do    func(*World, context.Context, *unstructured.Unstructured)
}

func edits() []edit {
	return []edit{
		takes(UserTakesFinalizers, "finalizers"), takes(UserTakesLabels, "labels"), takes(UserTakesAnnotations, "annotations"),
		takes(UserTakesOwners, "ownerReferences"),
		{fault: UserReplaces, of: (*World).isChanged, do: (*World).replaces},
		{fault: UserDeletesAnything, of: isNoRoot, do: (*World).deletesAny},
	}
}

// takes is the edit that removes a field of the metadata, or one key of it.
func takes(fault Fault, name string) edit {
	return edit{
		fault: fault, of: func(_ *World, obj *unstructured.Unstructured) bool { return has(obj, "metadata", name) },
		patch: func(w *World, obj *unstructured.Unstructured) map[string]any {
			w.takes(obj, "metadata", name)
			value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", name)
			if keys, is := value.(map[string]any); is && w.choices.pick(2) == 1 {
				all := slices.Sorted(maps.Keys(keys))
				return without("metadata", name, all[w.choices.pick(len(all))])
			}
			return without("metadata", name)
		},
	}
}

// has reports whether an object has a field.
func has(obj *unstructured.Unstructured, path ...string) bool {
	_, found, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return found
}

// without is the merge patch that removes a field.
func without(path ...string) map[string]any {
	patch := map[string]any{}
	_ = unstructured.SetNestedField(patch, nil, path...) // nothing is in the way
	return patch
}

// disturbance is the edit of one object of those that it is for. What is another owner's stays as it is.
func (e edit) disturbance() disturbance {
	return disturbance{e.fault, func(w *World, ctx context.Context) {
		all := slices.DeleteFunc(w.among(e.kinds), func(obj *unstructured.Unstructured) bool { return isForeign(obj) || !e.of(w, obj) })
		if len(all) == 0 {
			return
		}
		obj := all[w.choices.pick(len(all))]
		if e.do != nil {
			e.do(w, ctx, obj)
			return
		}
		w.patch(ctx, obj, jsonOf(e.patch(w, obj)))
	}}
}

func editDisturbances() []disturbance {
	var all []disturbance
	for _, e := range edits() {
		all = append(all, e.disturbance())
	}
	return all
}

// among are the objects of some kinds; of all that processes cache for nil.
func (w *World) among(kinds []string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, gvk := range w.served {
		if kinds == nil || slices.Contains(kinds, gvk.Kind) {
			all = append(all, w.Objects(gvk.Kind)...)
		}
	}
	return all
}

// isForeign reports whether an object is there to stay as it is.
func isForeign(obj *unstructured.Unstructured) bool {
	return obj.GetName() == ForeignName || obj.GetName() == otherNode
}

// isChanged reports whether there is an earlier version of an object.
func (w *World) isChanged(obj *unstructured.Unstructured) bool {
	old := w.writers.first[obj.GetUID()]
	return old != nil && old.GetResourceVersion() != obj.GetResourceVersion()
}

// replaces is kubectl replace with an old file: the metadata and the spec of an earlier version, and the current resourceVersion.
func (w *World) replaces(ctx context.Context, obj *unstructured.Unstructured) {
	old := w.writers.first[obj.GetUID()].DeepCopy()
	if !isHeld(old) {
		w.takes(obj, "metadata", "finalizers")
	}
	w.takes(obj, "metadata", "ownerReferences")
	what := fmt.Sprintf("replace %s %s by its version %s", obj.GetKind(), obj.GetName(), old.GetResourceVersion())
	old.SetResourceVersion(obj.GetResourceVersion())
	delete(w.writers.first, obj.GetUID())
	w.note("user", what, said(w.store.Client().Update(ctx, old)))
}

// isNoRoot reports whether an object belongs to another one, or can be made again.
func isNoRoot(_ *World, obj *unstructured.Unstructured) bool {
	return metav1.GetControllerOf(obj) != nil || obj.GetKind() == "Node" || isTemplate(obj) || obj.GetKind() == checkKind
}

func isTemplate(obj *unstructured.Unstructured) bool {
	return strings.HasSuffix(obj.GetKind(), contract.TemplateSuffix)
}

// deletesAny deletes an object. What invariants excuse because of a fault, they excuse because of such a deletion too.
func (w *World) deletesAny(ctx context.Context, obj *unstructured.Unstructured) {
	policy := []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	}[w.choices.pick(3)]
	alike := map[string]Fault{
		"Machine": UserDeletes, "MachineSet": UserDeletesSet, partGVK().Kind: UserDeletesPart, configGVK().Kind: UserDeletesPart,
		"Node": NodeReplaced, checkKind: UserEditsHealthCheck,
	}[obj.GetKind()]
	if alike != "" {
		w.seen[faultPrefix+string(alike)]++
	}
	if o := w.ownerOf(obj); o != nil && slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		o.again = true
	}
	err := w.store.Client().Delete(ctx, obj.DeepCopy(), client.PropagationPolicy(policy))
	w.note("user", fmt.Sprintf("delete %s %s --cascade=%s", obj.GetKind(), obj.GetName(), strings.ToLower(string(policy))), said(err))
	if obj.GetKind() == checkKind {
		w.health.watch.forget(w)
	}
	if isTemplate(obj) {
		w.writers.templates = append(w.writers.templates, obj)
	}
}

// makesAgain is the person who creates the templates again that another one has deleted.
func (w *World) makesAgain(ctx context.Context) {
	for _, obj := range w.writers.templates {
		again := obj.DeepCopy()
		again.SetResourceVersion("")
		again.SetUID(types.UID(""))
		w.note("user", "create "+again.GetKind()+" "+again.GetName(), said(w.store.Client().Create(ctx, again)))
	}
}
