package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/instance"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// chore is what a person does to an object that stays, once the faults have stopped.
type chore struct {
	kinds  string
	needed func(*World, *unstructured.Unstructured) bool
	does   editing
}

// chores are what conditions require, and what others have left undone.
func chores() []chore {
	return []chore{
		{ofSets, awaitsConfirmation, func(_ *World, obj *unstructured.Unstructured) string {
			return annotate(children.RestoredAnnotation, string(obj.GetUID()))
		}},
		{ofSets, func(_ *World, obj *unstructured.Unstructured) bool {
			return obj.GetLabels()[scale.FreezeLabel] == frozenByPerson
		}, func(*World, *unstructured.Unstructured) string { return labelPatch(scale.FreezeLabel, nil) }},
		{"Machine MachineSet", (*World).isUnrecognized, (*World).removed},
		{"MachineSet", (*World).isTaken, (*World).removed}, {"Machine", (*World).waitsForItsDeletion, (*World).removed},
		{"Machine", func(w *World, m *unstructured.Unstructured) bool {
			return !isPaused(m) && isInPlace(m, contract.InPlaceFailed)
		}, func(_ *World, m *unstructured.Unstructured) string {
			return annotate(contract.InPlaceAnnotation, inPlaceAs(m, contract.InPlaceSelected))
		}},
		{"Node", (*World).isLeftCordoned, func(*World, *unstructured.Unstructured) string { return patchOf(nil, "spec", "unschedulable") }},
		{"Node", (*World).isStray, func(w *World, node *unstructured.Unstructured) string {
			w.collects(w.ctx, node)
			return ""
		}},
	}
}

// people are those who, once the faults have stopped and nothing else happens, do their chores, and delete instances that only they can
// delete. They create the infrastructure of a MachinePool whose deletion a backup has ended, when it was too late for that, and templates
// that are gone.
func people(ctx context.Context, w *World) (all []due) {
	for _, c := range chores() {
		all = append(all, c.due(ctx, w)...)
	}
	for _, i := range w.instances() {
		if i.State != cloud.Deleting && w.isStrayInstance(i) {
			all = append(all, due{do: func() {
				w.missed[types.NamespacedName{Namespace: w.homes[tokenOf(i)].space, Name: i.Name}] = true
				w.ends("user", i)
			}})
		}
	}
	for _, obj := range w.writers.templates {
		if !w.ending && w.object(obj.GetKind(), obj.GetNamespace(), obj.GetName()) == nil {
			all = append(all, due{do: func() { w.copies(obj, obj.GetNamespace(), true) }})
		}
	}
	if w.pool != nil && !w.pool.owner.leaves() && w.object(poolInfraKind, namespace, RootName) == nil {
		all = append(all, due{do: func() { w.note("user", "create "+poolInfraKind+" "+RootName, textOf(w.createPoolInfra(ctx))) }})
	}
	return all
}

// due are the chores of a kind, one for each object.
func (c chore) due(ctx context.Context, w *World) (all []due) {
	for kind := range strings.FieldsSeq(c.kinds) {
		for _, obj := range w.Objects(kind) {
			if obj.GetDeletionTimestamp() == nil && !isMisplaced(obj) && c.needed(w, obj) {
				all = append(all, due{do: func() { w.patch(ctx, obj, c.does(w, obj)) }})
			}
		}
	}
	return all
}

// awaitsConfirmation reports whether a deployment or a set waits for a person to confirm that it was restored.
func awaitsConfirmation(_ *World, obj *unstructured.Unstructured) bool {
	uid := string(obj.GetUID())
	return obj.GetAnnotations()[children.RestoredAnnotation] != uid && strings.Contains(messages(obj), children.RestoredAnnotation+" to "+uid)
}

// isTaken reports whether somebody has taken a set from its deployment.
func (w *World) isTaken(set *unstructured.Unstructured) bool {
	o := w.ownerOf(set)
	return o != nil && set.GetName() != o.name && set.GetLabels()["pool"] != o.name && metav1.GetControllerOf(set) == nil
}

// isUnrecognized reports whether an owner waits for a person to delete a child that was stored without what it is recognized by.
func (w *World) isUnrecognized(obj *unstructured.Unstructured) bool {
	text := obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName() + " was created, and the API server has stored it without"
	return slices.ContainsFunc(w.keepers(), func(owner *unstructured.Unstructured) bool { return strings.Contains(messages(owner), text) })
}

// wasRestored reports whether a person has restored a backup.
func (w *World) wasRestored() bool {
	return w.backups.restored || w.had(UserRestoresElsewhere)
}

// isLeftCordoned reports whether a Node has the cordon of a drain that is no more and has left no record: a backup has brought its Machine
// back as it was before its deletion, or somebody has taken the record from the Node. This cordon looks like that of a person, who
// takes both away.
func (w *World) isLeftCordoned(node *unstructured.Unstructured) bool {
	if textAt(node, "spec", "unschedulable") != "true" {
		return false
	}
	if w.writers.unrecorded[node.GetUID()] {
		return !has(node, contract.DrainStartedAnnotation) && !has(node, scale.DeleteAnnotation)
	}
	m := w.withID("Machine", providerIDIn(node))
	return w.wasRestored() && m != nil && m.GetDeletionTimestamp() == nil
}

// waitsForItsDeletion reports whether a person deletes a Machine: its owner replaces none by itself and it is outdated, its instance is
// gone and it reports that, also when its pool has lost it, or it is lost.
func (w *World) waitsForItsDeletion(m *unstructured.Unstructured) bool {
	if !ownedBySet(m) && !w.isSingle(m) {
		return metav1.GetControllerOf(m) == nil && strings.Contains(messages(m), "has been deleted while the Machine still exists")
	}
	o, old := w.ownerOf(m), w.Now().Sub(m.GetCreationTimestamp().Time) >= time.Minute // what replaces it may take so long
	outdated := old && o != nil && o.strategy == rollout.OnDelete && !o.leaves() && o.isOutdated(m)
	gone := w.wasRestored() && strings.Contains(messages(m), "no longer exists: delete the Machine")
	return outdated || gone || w.habits != nil && isLost(m)
}

// isStray reports whether a Node has no instance, and nothing but a person or the cloud controller manager deletes it. Of a Machine that
// has lost its provider ID nothing records which Node is its own.
func (w *World) isStray(node *unstructured.Unstructured) bool {
	byHand := w.wasRestored() || w.had(WebhookPrunes) || len(w.writers.released) > 0
	known := byHand || w.missed[types.NamespacedName{Namespace: w.clusterWith(node).space, Name: node.GetName()}]
	return (known || w.habits != nil && w.habits.nodes[node.GetName()]) && !w.hasInstance(node, w.instances())
}

// isStrayInstance reports whether an instance has no Machine, or is beside that of one, and a person deletes it: people have caused that,
// or no Collector will, since it cannot be sure, leaves it to a Machine that is lost, or does not look for clusters without Machines.
func (w *World) isStrayInstance(i cloud.Instance) bool {
	byHand := !w.hasMachine(i.Token) && (w.wasRestored() || w.isReleased(i))
	return byHand || w.habits != nil && w.holderOf(i) == nil && !isOfPool(i.Name) &&
		(!w.hasMachines(w.homes[tokenOf(i)]) || w.isBesideLost(i) || w.isLeftToPeople(i))
}

// isLost reports whether a Machine is in a state that only its deletion ends.
func isLost(m *unstructured.Unstructured) bool {
	return textAt(m, "status", "phase") == "Failed" || slices.Contains([]string{
		string(cloud.Terminal), instance.ReasonInvalid, instance.ReasonGone, instance.ReasonFailed,
	}, reasonOf(m, contract.ConditionInfrastructureReady))
}

// isBesideLost reports whether an instance is the second one of a Machine without a set that has lost the first: the Machine stays, and a
// Collector leaves the instance to it.
func (w *World) isBesideLost(i cloud.Instance) bool {
	return slices.ContainsFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		return !ownedBySet(m) && string(m.GetUID()) == tokenOf(i) && isLost(m)
	})
}

// hasMachines reports whether there are Machines of a cluster.
func (w *World) hasMachines(c *workloadCluster) bool {
	return slices.ContainsFunc(w.owned(), func(m *unstructured.Unstructured) bool { return w.clusterOf(m.GetNamespace()) == c })
}

// updater is the hook of updates in place, which may fail. Once the faults have stopped, a person has the failed ones selected again.
func updater(ctx context.Context, w *World) (all []due) {
	for _, m := range w.owned() {
		if isInPlace(m, contract.InPlaceSelected) && !isPaused(m) && m.GetDeletionTimestamp() == nil {
			all = append(all, due{do: func() { w.updates(ctx, m) }})
		}
	}
	return all
}

func isInPlace(m *unstructured.Unstructured, state string) bool {
	return contract.ReadInPlace(m.GetAnnotations()).State == state
}

// inPlaceAs is another state of the update in place of a Machine, to the same set.
func inPlaceAs(m *unstructured.Unstructured, state string) string {
	return contract.InPlace{State: state, Set: contract.ReadInPlace(m.GetAnnotations()).Set}.String()
}

// tidier is a person who looks after what no controller has any more, once the faults have stopped: Machines that a set has made and
// released, which count while it is frozen, and those that are selected for an update and have lost their set.
func tidier(ctx context.Context, w *World) (all []due) {
	if !w.calm {
		return nil
	}
	sets := slices.DeleteFunc(w.Objects("MachineSet"), func(set *unstructured.Unstructured) bool { return !isFrozen(set) })
	for _, m := range w.Objects("Machine") {
		ofFrozen := slices.ContainsFunc(sets, func(set *unstructured.Unstructured) bool { return isMadeBy(set, m) })
		switch {
		case metav1.GetControllerOf(m) != nil || m.GetDeletionTimestamp() != nil:
		case ofFrozen:
			all = append(all, due{do: func() { w.deletes(m, ", which its frozen set has released") }})
		case isInPlace(m, contract.InPlaceSelected):
			all = append(all, due{do: func() { w.patch(ctx, m, annotate(contract.InPlaceAnnotation, nil)) }})
		}
	}
	return all
}

// updates brings a selected Machine to the template of the set that it names, if both are still there.
func (w *World) updates(ctx context.Context, selected *unstructured.Unstructured) {
	m := w.object("Machine", selected.GetNamespace(), selected.GetName())
	if m == nil || !isInPlace(m, contract.InPlaceSelected) {
		return
	}
	set := w.object("MachineSet", m.GetNamespace(), contract.ReadInPlace(m.GetAnnotations()).Set)
	if set == nil || metav1.GetControllerOf(m) == nil {
		return
	}
	if w.strikes(UpdateFails, 3) {
		w.patch(ctx, m, annotate(contract.InPlaceAnnotation, inPlaceAs(m, contract.InPlaceFailed)))
		return
	}
	w.patch(ctx, m, jsonOf(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{contract.InPlaceAnnotation: inPlaceAs(m, contract.InPlaceUpdated)}},
		"spec":     map[string]any{"version": versionOf(set, "spec", "template")},
	}))
}
