package simulation

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// writtenTruths are the sentences that hold after each write of a process.
func writtenTruths() []Invariant {
	return []Invariant{
		{Name: truthPrefix + "what waits for a person names what the person can do", AfterWrite: advises},
		{Name: truthPrefix + "a deletion is completed when nothing is left", AfterWrite: completes},
	}
}

// advice is what a condition says to a person, by its reason: one of several texts.
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
	if w.acting == nil || e.Removed || reconciledKinds()[e.After.GetKind()] == nil {
		return nil
	}
	for _, c := range conditionsIn(e.After) {
		words, waits := advice()[c.Reason]
		if !waits || isWanted(c) {
			continue
		}
		advised := false
		for word := range strings.SplitSeq(words, "|") {
			advised = advised || strings.Contains(c.Message, word)
		}
		if !advised {
			return fmt.Errorf("%s %s: %s is %s: %s", e.After.GetKind(), e.After.GetName(), c.Type, c.Reason, c.Message)
		}
	}
	return nil
}

// completes is about a set, a deployment or a Machine whose condition Deleting is new: what the cache of the process shows counts, and the
// finalizer goes only when the API server has confirmed it.
func completes(w *World, e Write) error {
	if w.acting == nil || !e.Removed && e.Before != nil && isHeld(e.After) || !isCompleted(e.After) || w.backups.restored {
		return nil
	}
	kind := childKind(e.After)
	for _, child := range w.Objects(kind) {
		owner := metav1.GetControllerOf(child)
		if owner != nil && owner.UID == e.After.GetUID() {
			return fmt.Errorf("%s %s goes, and %s %s is there", e.After.GetKind(), e.After.GetName(), kind, child.GetName())
		}
	}
	return nil
}

// isCompleted reports whether an owner says that its deletion is completed.
func isCompleted(obj *unstructured.Unstructured) bool {
	_, _, message := conditionOf(obj, contract.ConditionDeleting)
	return message == "Deletion completed" && obj.GetKind() != "Machine"
}
