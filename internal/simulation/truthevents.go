package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// Names of the invariants about the events that the reconcilers record.
const (
	recordedOnce  = truthPrefix + "a process does not record an event twice while nobody else writes"
	recordedTruly = truthPrefix + "an event that something was done is recorded when it was"
)

// recorder takes the events that the reconcilers of a process record.
type recorder struct{ process *process }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	p, obj := r.process, regarding.(client.Object) //nolint:forcetypeassert // the library records events about objects only
	w, text := p.world, fmt.Sprintf(note, args...)
	key := fmt.Sprintln(obj.GetUID(), reason, text)
	looks := w.habits != nil && obj.GetObjectKind().GroupVersionKind().Kind == "Machine" // each look may find something else
	if p.recorded[key] && !looks && !isAttempt(reason) {
		w.fail(recordedOnce, fmt.Errorf("%s %s: %s", reason, obj.GetName(), text))
	}
	p.recorded[key] = w.calm || !w.isPruned(obj) // what could not be stored is found again
	if refused, is := strings.CutPrefix(text, "Failed to create Machines: "); is {
		p.refused[obj.GetUID()] = refused
	}
	if p.began >= w.backups.event { // a backup that is restored undoes what a pass has done
		w.fail(recordedTruly, w.denies(obj.GetNamespace(), reason, text))
	}
}

// isAttempt reports whether an event is about an attempt: that it has failed, or what a user has requested.
func isAttempt(reason string) bool {
	return strings.HasPrefix(reason, "Failed") || strings.Contains(reason, "Rollback")
}

// words are the words of a note that may be names.
func words(note string) []string {
	return strings.FieldsFunc(note, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) })
}

// isWritten is called for each write. It counts the reasons of the conditions of an object.
func (w *World) isWritten(obj *unstructured.Unstructured, removed bool) {
	if w.by[obj.GetResourceVersion()] = w.acting; w.isPruned(obj) { // a condition that was lost changes again
		w.by[obj.GetResourceVersion()] = nil
	}
	for _, c := range storedConditions(obj) {
		w.seen[fmt.Sprintf("reason %s %v %v", obj.GetKind(), c["type"], c["reason"])]++
	}
	for _, p := range w.processes {
		p.finds(obj)
		p.endsRefusals(obj, removed)
	}
}

// endsRefusals is about a check that has refused to remediate, and then remediates without the message of the refusal. When a Machine or a
// Node goes after that, it may refuse in the same words again: the numbers are those of others. Its own change of mind is no reason.
func (p *process) endsRefusals(obj *unstructured.Unstructured, removed bool) {
	switch status, _, message := conditionOf(obj, contract.ConditionRemediationAllowed); {
	case removed && isAmong("Machine Node", obj):
		for key := range p.over {
			delete(p.recorded, key)
		}
		clear(p.over)
	case obj.GetKind() == checkKind && status == isTrue(false):
		delete(p.over, fmt.Sprintf("%s %s %s\n", obj.GetUID(), remediation.ReasonRemediationRestricted, message))
	case obj.GetKind() == checkKind && status == isTrue(true):
		refusal := fmt.Sprintf("%s %s ", obj.GetUID(), remediation.ReasonRemediationRestricted)
		for key := range p.recorded {
			if strings.HasPrefix(key, refusal) && key != refusal+message+"\n" {
				p.over[key] = true
			}
		}
	}
}

// finds is called for what a process may find: a write, and its event. After that of another one, it may record an event again.
func (p *process) finds(obj *unstructured.Unstructured) {
	if p.world.by[obj.GetResourceVersion()] != p {
		clear(p.recorded)
	}
}

// denies returns what differs from the text of an event.
func (w *World) denies(namespace, reason, note string) error {
	for _, word := range words(note) {
		gone := map[string][]*unstructured.Unstructured{
			"SuccessfulDelete":     {w.object("Machine", namespace, word), w.object("MachineSet", namespace, word)},
			"SuccessfulDeleteNode": {w.object("Node", w.clusterOf(namespace).space, word)},
		}
		for _, obj := range gone[reason] {
			if obj != nil && obj.GetDeletionTimestamp() == nil {
				return fmt.Errorf("%s: %s: %s %s stays", reason, note, obj.GetKind(), word)
			}
		}
		if reason == "SuccessfulCreate" && strings.Contains(word, "-") && !w.wasMade(namespace, word) {
			return fmt.Errorf("%s: %s: there is no %s", reason, note, word)
		}
	}
	return nil
}

// wasMade reports whether a Machine or a MachineSet with a name is or was there.
func (w *World) wasMade(namespace, name string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(w.writers.first)), func(obj *unstructured.Unstructured) bool {
		return obj.GetName() == name && obj.GetNamespace() == namespace && isAmong("Machine MachineSet", obj)
	})
}

// advice is what a condition has for a person, by its reason: one of several texts.
func advice() map[string]string {
	return map[string]string{
		contract.ReasonDoesNotExist: "set|does not exist", contract.ReasonDataSecretNameMissing: "must set", "ProviderIDMissing": "must set",
		"InstanceGone": "delete the Machine|being deleted", "MachinesNotRestored": "set annotation", "MachinesNotShown": "have the cache",
		"MachineSetsNotRestored": "set annotation", "MachineSetsNotShown": "have the cache", "LedgerUnreadable": "correct it",
		"Frozen": "annotation|recover", "Outage": "add the annotation", "InstancesHeld": "delete|change",
		contract.ReasonAmbiguousNode: "delete", contract.ReasonNodeClaimed: "correct|let each",
		contract.ReasonOwnedByAnother: "remove|correct|delete",
	}
}

// advises is about the conditions that name their own cause: Ready and those of owners repeat others.
func advises(w *World, e Write) error {
	if w.acting == nil || e.Removed || !isAmong(reconciled, e.After) {
		return nil
	}
	text := conditionsWhere(func(obj *unstructured.Unstructured, kind, message string) bool {
		words, waits := advice()[reasonOf(obj, kind)]
		return waits && !isWanted(obj, kind) &&
			!slices.ContainsFunc(strings.Split(words, "|"), func(word string) bool { return strings.Contains(message, word) })
	})(w, e.After)
	if text != "" {
		return fmt.Errorf("%s %s: %s", e.After.GetKind(), e.After.GetName(), text)
	}
	return nil
}

// completes is about a set or a deployment whose deletion has the message that it is completed: what the cache of the process shows counts,
// and the finalizer goes only when the API server has confirmed it.
func completes(w *World, e Write) error {
	_, _, message := conditionOf(e.After, contract.ConditionDeleting)
	if message != "Deletion completed" || !isAmong(ofSets, e.After) || w.acting == nil || w.backups.restored ||
		!e.Removed && e.Before != nil && isHeld(e.After) {
		return nil
	}
	kind := childKind(e.After)
	for _, child := range w.Objects(kind) {
		owner := metav1.GetControllerOf(child) // that of a copy may be in another namespace, where an owner is none
		if owner != nil && owner.UID == e.After.GetUID() && child.GetNamespace() == e.After.GetNamespace() {
			return fmt.Errorf("%s %s is deleted, and %s %s is there", e.After.GetKind(), e.After.GetName(), kind, child.GetName())
		}
	}
	return nil
}

// namesRefusal is about the status that a pass writes in which Machines could not be created.
func namesRefusal(w *World, e Write) error {
	if w.acting == nil || e.Before == nil || messages(e.Before) == messages(e.After) {
		return nil
	}
	refused, is := w.acting.refused[e.After.GetUID()]
	status, _, message := conditionOf(e.After, contract.ConditionScalingUp)
	if !is || status != isTrue(true) || strings.Contains(message, refused) {
		return nil
	}
	return fmt.Errorf("MachineSet %s: %s, and not %s", e.After.GetName(), message, refused)
}
