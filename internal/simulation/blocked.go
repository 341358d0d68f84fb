package simulation

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/machineset/rollout"
)

const (
	// UserNamesNoTemplate: a person rolls out to a template that does not exist, and creates it once the faults have stopped.
	UserNamesNoTemplate Fault = "user names a template that does not exist"
	// UserChangesCluster: a person changes the cluster that an owner names, and later puts it right.
	UserChangesCluster Fault = "user changes the cluster of an owner"
)

// Names of the invariants about what an owner cannot or must not do.
const (
	PausedStays     = "no Machine is replaced while it is paused"
	KeepsForBlocked = "no available Machine goes for a set that cannot create"
	KeepsForCluster = "nothing is created, deleted or released while the cluster of an owner is another one"
)

// namesNoTemplate is the user who changes the templates of an owner to some that do not exist.
func (w *World) namesNoTemplate(ctx context.Context) {
	if o := w.chosen((*owner).hasSets); o != nil && w.parts {
		o.blocked = true
		o.rollOut(ctx, o.revision+1)
	}
}

// changesCluster is the user who has an owner name another cluster, or the right one again.
func (w *World) changesCluster(ctx context.Context) {
	o := w.chosen((*owner).hasSets)
	if o == nil {
		return
	}
	o.elsewhere, o.moved = !o.elsewhere, true
	o.nameCluster(ctx)
}

func (o *owner) nameCluster(ctx context.Context) {
	name := map[bool]string{true: "c9", false: o.world.clusterOf(o.namespace).name}[o.elsewhere]
	body := jsonOf(map[string]any{"spec": map[string]any{
		"clusterName": name, "template": map[string]any{"spec": map[string]any{"clusterName": name}},
	}})
	o.world.patch(ctx, o.named(), body)
}

// putsRight is the user who creates what templates are missing, and names the right cluster, once the faults have stopped.
func (w *World) putsRight(ctx context.Context) {
	for _, o := range w.owners {
		if o.blocked && !o.leaves() {
			o.blocked = false
			for revision := range o.revision + 1 {
				w.fail("a template can be written", o.addTemplates(ctx, revision))
			}
		}
		if o.elsewhere {
			o.elsewhere = false
			o.nameCluster(ctx)
		}
	}
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
	if w.acting == nil || w.acting.kind == "Machine" || o == nil || !o.elsewhere || o.leaves() || e.After.GetKind() != "Machine" || w.isFreed(e.After) {
		return nil
	}
	released := e.Before != nil && metav1.GetControllerOf(e.Before) != nil && metav1.GetControllerOf(e.After) == nil
	if e.Before == nil || released {
		return fmt.Errorf("%s is created: %t, and released: %t", e.After.GetName(), e.Before == nil, released)
	}
	return nil
}
