package simulation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/instance"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// looksAgain: the provider has said several times that there is no instance, which runs.
func looksAgain(w *World, e Write) error {
	if w.habits == nil || w.acting == nil || e.Before == nil || e.Removed || reasonOf(e.After) != instance.ReasonGone ||
		reasonOf(e.Before) == instance.ReasonGone {
		return nil
	}
	for _, i := range w.instances() {
		if isOwn(e.After, i) && i.State != cloud.Deleting && !w.habits.saidGone(i.Token) {
			return fmt.Errorf("%s says that its instance %s is gone, after %d looks", e.After.GetName(), i.ProviderID, w.habits.denied[i.Token])
		}
	}
	return nil
}

// reasonOf is the reason of the condition about the infrastructure of a Machine; empty without.
func reasonOf(m *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedFieldNoCopy(m.Object, "status", "conditions")
	all, _ := conditions.([]any)
	for _, one := range all {
		if c, _ := one.(map[string]any); c != nil && c["type"] == contract.ConditionInfrastructureReady {
			reason, _ := c["reason"].(string)
			return reason
		}
	}
	return ""
}

// ownInstance: what a process writes into a Machine is its own instance, and no other Machine has recorded that. A Machine that was
// restored has another UID.
func ownInstance(w *World, e Write) error {
	id := providerIDIn(e.After)
	if w.acting == nil || w.backups.restored || e.Removed || e.After.GetKind() != "Machine" || id == "" || id == providerIDIn(e.Before) ||
		isMisplaced(e.After) {
		return nil
	}
	for _, i := range w.instances() {
		if sameID(i.ProviderID, id) && !isOwn(e.After, i) {
			return fmt.Errorf("%s records %s, which is of another one", e.After.GetName(), id)
		}
	}
	for _, m := range w.Objects("Machine") {
		if m.GetUID() != e.After.GetUID() && !isMisplaced(m) && sameID(providerIDIn(m), id) {
			return fmt.Errorf("%s records %s, which is that of %s", e.After.GetName(), id, m.GetName())
		}
	}
	return nil
}

// providerIDIn is the provider ID of a Machine; empty without, and without a Machine.
func providerIDIn(m *unstructured.Unstructured) string {
	if m == nil {
		return ""
	}
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	return id
}

// madeForKept is the name of an invariant.
const madeForKept = "no instance is made for a Machine that was gone or being deleted before the pass"

// leaves remembers which objects of the operator go. A backup may bring one back.
func (w *World) leaves(obj *unstructured.Unstructured, removed bool) {
	if _, known := w.leaving[obj.GetUID()]; !removed && obj.GetDeletionTimestamp() == nil {
		delete(w.leaving, obj.GetUID())
	} else if !known {
		w.leaving[obj.GetUID()] = len(w.history.Events)
	}
}

// makesForKept is checked before a process has an instance made: a cache that is behind shows a Machine that nothing will end.
func (p *process) makesForKept(r *cloud.Request) error {
	if at, leaves := p.world.leaving[types.UID(r.Token)]; leaves && at < p.began {
		return fmt.Errorf("%s has been going since event %d, and the pass began with event %d", r.Name, at+1, p.began+1)
	}
	return nil
}
