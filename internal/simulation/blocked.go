package simulation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/machineset/rollout"
)

// Names of the invariants about what an owner cannot or must not do.
const (
	PausedStays     = "no Machine is replaced while it is paused"
	KeepsForBlocked = "no available Machine goes for a set that cannot create"
	KeepsForCluster = "nothing is created, deleted or released while the cluster of an owner is another one"
)

// elsewhereOrBack names another cluster, or the right one again.
func (o *owner) elsewhereOrBack() string {
	name := o.world.clusterOf(o.namespace).name
	if o.elsewhere, o.moved = !o.elsewhere, true; o.elsewhere {
		name = "c9"
	}
	named := map[string]any{"clusterName": name}
	return patchOf(map[string]any{"clusterName": name, "template": map[string]any{"spec": named}}, "spec")
}

// pausedStays is about Machines that were paused already when the pass began, and are not any more in the cache of the process either.
func pausedStays(w *World, e Write) error {
	if isReplaced(w, e) && isPaused(e.Before) {
		return fmt.Errorf("%s is deleted", e.After.GetName())
	}
	return nil
}

// keepsForBlocked is about Recreate; a rolling update keeps as many as it says whatever blocks it.
func keepsForBlocked(w *World, e Write) error {
	o := w.ownerOf(e.After)
	if w.acting == nil || o == nil || !o.blocked || o.strategy != rollout.Recreate || o.leaves() || e.Before == nil || !deletesAvailable(e) {
		return nil
	}
	if len(o.owned()) > o.desired() { // it is scaled down
		return nil
	}
	return fmt.Errorf("%s is deleted, and the template %s does not exist", e.After.GetName(), o.templateName(o.revision))
}

// keepsForCluster is about what the passes over an owner and its sets do; those over a Machine in deletion go on.
func keepsForCluster(w *World, e Write) error {
	o := w.ownerOf(e.After)
	if w.acting == nil || w.acting.controller == "machine" || o == nil || !o.elsewhere || o.leaves() || e.After.GetKind() != "Machine" ||
		w.isFreed(e.After) {
		return nil
	}
	released := e.Before != nil && metav1.GetControllerOf(e.Before) != nil && metav1.GetControllerOf(e.After) == nil
	if e.Before == nil || released {
		return fmt.Errorf("%s is created: %t, and released: %t", e.After.GetName(), e.Before == nil, released)
	}
	return nil
}
