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
	"github.com/machinist-dev/machinist/machineset/scale"
)

// editing is what somebody does to an object: it returns a merge patch, or does something else and returns none.
type editing = func(*World, *unstructured.Unstructured) string

// edit is a fault in which somebody does something to one of some objects.
func edit(fault Fault, of func(*World) []*unstructured.Unstructured, does editing) disturbance {
	return disturbance{fault, func(w *World, ctx context.Context) {
		if obj := oneOf(w, of(w)...); obj != nil {
			w.patch(ctx, obj, does(w, obj))
		}
	}}
}

// ownerEdit is a fault in which a user changes one of the owners that match: patch returns how, or nothing.
func ownerEdit(fault Fault, match func(*owner) bool, patch func(*owner) string) disturbance {
	return disturbance{fault, func(w *World, ctx context.Context) {
		if o := w.chosen(match); o != nil {
			w.patch(ctx, o.named(), patch(o))
		}
	}}
}

// edits are those of people who use the API as intended, and of programs.
func edits() []disturbance {
	return []disturbance{
		ownerEdit(UserRollsBack, (*owner).deploys, (*owner).rolledBack), ownerEdit(UserRollsOutAfter, (*owner).deploys, (*owner).rolledOutAfter),
		ownerEdit("user pauses a rollout", (*owner).deploys, (*owner).pausedOrNot), ownerEdit(Autoscales, (*owner).hasSets, (*owner).autoscaled),
		ownerEdit(UserNamesNoTemplate, (*owner).hasSets, (*owner).withoutTemplates),
		edit(UserStrips, (*World).keepers, func(*World, *unstructured.Unstructured) string { return stripped }),
		edit(UserDeletesSet, (*World).deployedSets, (*World).cascades),
		edit("user pauses", (*World).ours, toggled(contract.PausedAnnotation)), edit("hooks", (*World).owned, (*World).hooked),
	}
}

// takes is an edit that removes a field of a class, or one label or annotation.
func takes(fault Fault, class string) disturbance {
	return edit(fault, func(w *World) []*unstructured.Unstructured { return w.having(class) },
		func(w *World, obj *unstructured.Unstructured) string {
			return w.without(obj, oneOf(w, fieldsOf(obj, class)...))
		})
}

// toggled gives an object an annotation, or takes it away.
func toggled(annotation string) editing {
	return func(_ *World, obj *unstructured.Unstructured) string {
		return annotate(annotation, orNothing(!has(obj, annotation)))
	}
}

func (w *World) hooked(m *unstructured.Unstructured) string {
	return toggled(oneOf(w, contract.PreDrainHook, contract.PreTerminateHook)+"/example")(w, m)
}

// frozen keeps an owner from creating, or ends that.
func (w *World) frozen(obj *unstructured.Unstructured) string {
	if isFrozen(obj) {
		return annotate(scale.UnfreezeAnnotation, "")
	}
	return labelPatch(scale.FreezeLabel, frozenByPerson)
}

// frozenByPerson is the value of scale.FreezeLabel that people write.
const frozenByPerson = "True"

func isFrozen(obj *unstructured.Unstructured) bool { return obj.GetLabels()[scale.FreezeLabel] != "" }

// stripped is the patch that removes all annotations.
const stripped = `{"metadata":{"annotations":null}}`

// orNothing is the value of an annotation or a label that an object is to have, or not.
func orNothing(on bool) any { return map[bool]any{true: "", false: nil}[on] }

// patchOf is the merge patch that sets a field, or removes it with nil.
func patchOf(value any, path ...string) string {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return jsonOf(value)
}

func annotate(name string, value any) string   { return patchOf(value, "metadata", "annotations", name) }
func labelPatch(name string, value any) string { return patchOf(value, "metadata", "labels", name) }

// keepers are the objects that keep others: deployments and sets.
func (w *World) keepers() []*unstructured.Unstructured {
	return append(w.Objects("MachineDeployment"), w.Objects("MachineSet")...)
}

// deployedSets are the sets of deployments.
func (w *World) deployedSets() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.Objects("MachineSet"), func(set *unstructured.Unstructured) bool {
		return w.ownerOf(set) == nil || !w.ownerOf(set).deploys()
	})
}

// deletable are the Machines that a person may delete: half the time, the young ones.
func (w *World) deletable() []*unstructured.Unstructured {
	young := slices.DeleteFunc(w.owned(), func(m *unstructured.Unstructured) bool { return !w.isYoung(m) })
	if len(young) > 0 && w.choices.pick(2) == 1 {
		return young
	}
	return w.owned()
}

// cached are the objects of all kinds that processes cache, but for those that are there to stay as they are.
func (w *World) cached() (all []*unstructured.Unstructured) {
	for _, gvk := range w.served {
		all = append(all, w.Objects(gvk.Kind)...)
	}
	return slices.DeleteFunc(all, isForeign)
}

// having are those of them that have a field of a class.
func (w *World) having(class string) []*unstructured.Unstructured {
	return slices.DeleteFunc(w.cached(), func(obj *unstructured.Unstructured) bool { return len(fieldsOf(obj, class)) == 0 })
}

// anyField returns the kind of an object and the path of a field of a class that it has; nothing without.
func (w *World) anyField(class string, fits func(path []string) bool) (kind string, path []string) {
	if obj := oneOf(w, w.having(class)...); obj != nil {
		fields := slices.DeleteFunc(fieldsOf(obj, class), func(path []string) bool { return !fits(path) })
		kind, path = obj.GetKind(), oneOf(w, fields...)
	}
	return kind, path
}

// noRoots are the objects that belong to others, or can be made again.
func (w *World) noRoots() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.cached(), func(obj *unstructured.Unstructured) bool {
		return metav1.GetControllerOf(obj) == nil && obj.GetKind() != "Node" && !isTemplate(obj) && obj.GetKind() != checkKind
	})
}

// isForeign reports whether an object is there to stay as it is.
func isForeign(obj *unstructured.Unstructured) bool {
	return obj.GetName() == ForeignName || obj.GetName() == otherNode
}

func isTemplate(obj *unstructured.Unstructured) bool {
	return strings.HasSuffix(obj.GetKind(), contract.TemplateSuffix)
}

// fieldsOf are the paths of the fields of one class that an object has: a field of the metadata as a whole, each label or annotation, the
// cordon of a Node, or what a CRD may lack: the provider ID and each field of a status.
func fieldsOf(obj *unstructured.Unstructured, class string) [][]string {
	path := []string{"metadata", class}
	switch class {
	case "status":
		path = path[1:]
	case "unschedulable":
		path[0] = "spec"
	}
	field, is, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	of, _ := field.(map[string]any)
	var all [][]string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, append(slices.Clone(path), key))
	}
	switch {
	case class == "status" && obj.GetKind() == "Node":
		return nil
	case class == "status" && providerIDIn(obj) != "":
		all = append(all, []string{"spec", "providerID"})
	case class != "status" && is:
		all = append(all, path)
	}
	return all
}

// without is the merge patch with which somebody takes a field from an object.
func (w *World) without(obj *unstructured.Unstructured, path []string) string {
	w.takes(obj, path)
	return patchOf(nil, path...)
}

// replaces is kubectl replace with an old file: the metadata and the spec of an earlier version, and the current resourceVersion.
func (w *World) replaces(obj *unstructured.Unstructured) string {
	old := w.writers.first[obj.GetUID()]
	if old == nil || old.GetResourceVersion() == obj.GetResourceVersion() {
		return ""
	}
	what := fmt.Sprintf("replace %s %s by its version %s", obj.GetKind(), obj.GetName(), old.GetResourceVersion())
	if w.takes(obj, []string{"metadata", "ownerReferences"}); !isHeld(old) {
		w.takes(obj, []string{"metadata", "finalizers"})
	}
	old = old.DeepCopy()
	old.SetResourceVersion(obj.GetResourceVersion())
	w.note("user", what, textOf(w.clientOf(obj).Update(w.ctx, old)))
	return ""
}

// deletes is a person who deletes an object; why begins with a comma, or is empty.
func (w *World) deletes(obj *unstructured.Unstructured, why string, options ...client.DeleteOption) {
	w.note("user", "delete "+obj.GetKind()+" "+obj.GetName()+why, textOf(w.clientOf(obj).Delete(w.ctx, obj.DeepCopy(), options...)))
}

func (w *World) removed(obj *unstructured.Unstructured) string {
	w.deletes(obj, "")
	return ""
}

// cascades deletes an object with one of the propagation policies.
func (w *World) cascades(obj *unstructured.Unstructured) string {
	policy := oneOf(w, metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan)
	if obj.GetKind() == configGVK().Kind && policy == metav1.DeletePropagationOrphan || w.clusterWith(obj) != w.clusters[0] {
		policy = metav1.DeletePropagationBackground // nobody would delete its Secret; no garbage collector runs in other clusters
	}
	if o := w.ownerOf(obj); o != nil && slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		o.again = true
	}
	w.deletes(obj, " --cascade="+strings.ToLower(string(policy)), client.PropagationPolicy(policy))
	return ""
}

// deletesAny deletes any object. What invariants excuse because of a fault, they excuse because of such a deletion too.
func (w *World) deletesAny(obj *unstructured.Unstructured) string {
	alike := map[string]Fault{
		"Machine": UserDeletes, "MachineSet": UserDeletesSet, partGVK().Kind: UserDeletesPart, configGVK().Kind: UserDeletesPart,
		"Node": NodeReplaced, checkKind: UserEditsHealthCheck,
	}
	if f := alike[obj.GetKind()]; f != "" {
		w.counts(f)
	}
	return w.cascades(obj)
}
