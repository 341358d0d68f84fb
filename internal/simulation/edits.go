package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Faults of people who edit objects by hand.
const (
	// UserTakesFinalizers, UserTakesLabels, UserTakesAnnotations and UserTakesOwners: a person removes these, or one label or annotation.
	UserTakesFinalizers  Fault = "user takes finalizers"
	UserTakesLabels      Fault = "user takes labels"
	UserTakesAnnotations Fault = "user takes annotations"
	UserTakesOwners      Fault = "user takes owner references"
	// UserReplaces: a person replaces an object by its first version.
	UserReplaces Fault = "user replaces by an old object"
	// UserDeletesAnything: a person deletes an object that is no root, with one of the propagation policies.
	UserDeletesAnything Fault = "user deletes anything"
)

// edit is what a person does to one object: a row of a table.
type edit struct {
	fault Fault
	// of says of which objects one is chosen.
	of func(*World, *unstructured.Unstructured) bool
	// patch returns a merge patch. do is what is none.
	patch func(*World, *unstructured.Unstructured) string
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

func takes(fault Fault, class string) edit {
	return edit{
		fault: fault, of: func(_ *World, obj *unstructured.Unstructured) bool { return len(fieldsOf(obj, class)) > 0 },
		patch: func(w *World, obj *unstructured.Unstructured) string {
			all := fieldsOf(obj, class)
			return w.without(obj, all[w.choices.pick(len(all))])
		},
	}
}

// disturbance is the edit of one object. What is another owner's stays as it is.
func (e edit) disturbance() disturbance {
	return disturbance{e.fault, func(w *World, ctx context.Context) {
		all := slices.DeleteFunc(w.cached(), func(obj *unstructured.Unstructured) bool { return isForeign(obj) || !e.of(w, obj) })
		if len(all) == 0 {
			return
		}
		if obj := all[w.choices.pick(len(all))]; e.do != nil {
			e.do(w, ctx, obj)
		} else {
			w.patch(ctx, obj, e.patch(w, obj))
		}
	}}
}

// cached are the objects of all kinds that processes cache.
func (w *World) cached() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, gvk := range w.served {
		all = append(all, w.Objects(gvk.Kind)...)
	}
	return all
}

// isForeign reports whether an object is there to stay as it is.
func isForeign(obj *unstructured.Unstructured) bool {
	return obj.GetName() == ForeignName || obj.GetName() == otherNode
}

// fieldsOf are the paths of the fields of one class that an object has: a field of the metadata as a whole, each label or annotation, the
// cordon of a Node, or what a CRD may lack: the provider ID and each field of a status.
func fieldsOf(obj *unstructured.Unstructured, class string) [][]string {
	parent, name := "metadata", class
	switch {
	case class == "status" && obj.GetKind() != "Node":
		parent, name = "status", ""
	case class == "status":
		return nil
	case class == "unschedulable":
		parent = "spec"
	}
	var all [][]string
	fields, _ := obj.Object[parent].(map[string]any)
	keys, _ := fields[name].(map[string]any)
	if parent == "status" {
		keys = fields
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, slices.DeleteFunc([]string{parent, name, key}, func(part string) bool { return part == "" }))
	}
	if fields[name] != nil {
		all = append(all, []string{parent, name})
	}
	if parent == "status" && providerIDIn(obj) != "" {
		all = append(all, []string{"spec", "providerID"})
	}
	return all
}

// anyField returns the kind of an object and the path of a field of a class that it has; nothing without.
func (w *World) anyField(class string, fits func(path []string) bool) (kind string, path []string) {
	objects := slices.DeleteFunc(w.cached(), func(obj *unstructured.Unstructured) bool { return len(fieldsOf(obj, class)) == 0 })
	if len(objects) == 0 {
		return "", nil
	}
	obj := objects[w.choices.pick(len(objects))]
	paths := slices.DeleteFunc(fieldsOf(obj, class), func(path []string) bool { return !fits(path) })
	if len(paths) == 0 {
		return "", nil
	}
	return obj.GetKind(), paths[w.choices.pick(len(paths))]
}

// without is the merge patch with which somebody takes a field from an object.
func (w *World) without(obj *unstructured.Unstructured, path []string) string {
	w.takes(obj, path)
	patch := map[string]any{}
	_ = unstructured.SetNestedField(patch, nil, path...) // nothing is in the way
	return jsonOf(patch)
}

// isChanged reports whether there is an earlier version of an object.
func (w *World) isChanged(obj *unstructured.Unstructured) bool {
	old := w.writers.first[obj.GetUID()]
	return old != nil && old.GetResourceVersion() != obj.GetResourceVersion()
}

// replaces is kubectl replace with an old file: the metadata and the spec of an earlier version, and the current resourceVersion.
func (w *World) replaces(ctx context.Context, obj *unstructured.Unstructured) {
	old := w.writers.first[obj.GetUID()].DeepCopy()
	if w.takes(obj, []string{"metadata", "ownerReferences"}); !isHeld(old) {
		w.takes(obj, []string{"metadata", "finalizers"})
	}
	what := fmt.Sprintf("replace %s %s by its version %s", obj.GetKind(), obj.GetName(), old.GetResourceVersion())
	old.SetResourceVersion(obj.GetResourceVersion())
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
	kind, policy := obj.GetKind(), []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	}[w.choices.pick(3)]
	if kind == configGVK().Kind && policy == metav1.DeletePropagationOrphan {
		policy = metav1.DeletePropagationBackground // nobody would delete its Secret
	}
	alike := map[string]Fault{
		"Machine": UserDeletes, "MachineSet": UserDeletesSet, partGVK().Kind: UserDeletesPart, configGVK().Kind: UserDeletesPart,
		"Node": NodeReplaced, checkKind: UserEditsHealthCheck,
	}
	if alike[kind] != "" {
		w.seen[faultPrefix+string(alike[kind])]++
	}
	if o := w.ownerOf(obj); o != nil && slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		o.again = true
	}
	err := w.store.Client().Delete(ctx, obj.DeepCopy(), client.PropagationPolicy(policy))
	w.note("user", fmt.Sprintf("delete %s %s --cascade=%s", kind, obj.GetName(), strings.ToLower(string(policy))), said(err))
}

// makesAgain is the person who creates the templates again that another one has deleted.
func (w *World) makesAgain(ctx context.Context) {
	for _, obj := range w.writers.templates {
		if w.object(obj.GetKind(), obj.GetNamespace(), obj.GetName()) != nil {
			continue
		}
		again := obj.DeepCopy()
		again.SetResourceVersion("")
		again.SetUID("")
		w.note("user", "create "+again.GetKind()+" "+again.GetName(), said(w.store.Client().Create(ctx, again)))
	}
}

// deletesLoose is the person who deletes the sets that a deployment has released, because somebody has taken their labels.
func (w *World) deletesLoose(ctx context.Context) {
	for _, set := range w.Objects("MachineSet") {
		o := w.ownerOf(set)
		if o != nil && set.GetName() != o.name && set.GetLabels()["pool"] != o.name && metav1.GetControllerOf(set) == nil &&
			set.GetDeletionTimestamp() == nil {
			w.note("user", "delete MachineSet "+set.GetName()+", which nothing owns", said(w.store.Client().Delete(ctx, set.DeepCopy())))
		}
	}
}
