package simulation

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// versionOf returns the version of a Machine or of a template, which only a rollout changes: the revision label changes in place.
func versionOf(obj *unstructured.Unstructured, path ...string) string {
	return textAt(obj, append(path, "spec", "version")...)
}

// isAvailable reports whether a Machine counts as available, and is not being deleted.
func isAvailable(m *unstructured.Unstructured) bool {
	return m.GetDeletionTimestamp() == nil && statusOf(m, contract.ConditionAvailable) == string(metav1.ConditionTrue)
}

// missing returns what is not as desired.
func (w *World) missing(ctx context.Context) string {
	w.relent(ctx)
	w.helps(ctx)
	if left := w.deletesMisplaced(ctx); left != "" {
		return left
	}
	for _, o := range w.owners {
		if text := o.missing(); text != "" {
			return text
		}
	}
	for _, m := range w.Objects("Machine") { // one that its set has orphaned may still be drained
		if m.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("Machine %s is being deleted: %s", m.GetName(), messages(m))
		}
	}
	return cmp.Or(w.unwell(), w.leaks())
}

// missing returns what differs from the spec of the owner.
func (o *owner) missing() string {
	if o.kind == poolKind {
		return o.world.missingOfPool()
	}
	owned := o.owned()
	if after, found := o.rolloutAfter(); found && after.After(o.world.Now()) {
		return "the time for which a rollout is requested is to come"
	}
	for _, m := range owned {
		if !isAvailable(m) {
			return fmt.Sprintf("Machine %s of cluster %s is %s: %s", m.GetName(), textAt(m, "spec", "clusterName"),
				textAt(m, "status", "phase"), messages(m))
		}
		if o.deploys() && o.isOutdated(m) {
			return fmt.Sprintf("Machine %s has the version %s, and not that of %s: %s", m.GetName(), versionOf(m), o.name, o.messages())
		}
	}
	if len(owned) != o.desired() {
		return fmt.Sprintf("%d Machines of %s %s are Running of %d: %s", len(owned), o.kind, o.name, o.desired(), o.messages())
	}
	return ""
}

// isOutdated reports whether a Machine of a deployment is to be replaced: its template has changed, or it is of a set from before the time
// of spec.rollout.after.
func (o *owner) isOutdated(m *unstructured.Unstructured) bool {
	root, controller := o.stored(), metav1.GetControllerOf(m)
	if root == nil || controller == nil {
		return false
	}
	after, found := o.rolloutAfter()
	set := o.world.object("MachineSet", m.GetNamespace(), controller.Name)
	return versionOf(m) != versionOf(root, "spec", "template") ||
		found && set != nil && !after.After(o.world.Now()) && set.GetCreationTimestamp().Time.Before(after) &&
			scale.ReadStamp(set.GetAnnotations()).After.Before(after)
}

// rolloutAfter returns the time of spec.rollout.after.
func (o *owner) rolloutAfter() (after time.Time, found bool) {
	if root := o.stored(); root != nil {
		at, err := time.Parse(time.RFC3339, textAt(root, "spec", "rollout", "after"))
		return at, err == nil
	}
	return time.Time{}, false
}

// messages returns those of the conditions of the owner and its sets.
func (o *owner) messages() string {
	var text []string
	for _, obj := range o.world.keepers() {
		if m := messages(obj); m != "" && o.world.ownerOf(obj) == o {
			text = append(text, m)
		}
	}
	return strings.Join(text, "\n")
}

// messages returns the messages of the conditions of an object.
func messages(obj *unstructured.Unstructured) string {
	var text []string
	for _, c := range storedConditions(obj) {
		if c["message"] != nil && c["message"] != "" {
			text = append(text, fmt.Sprintf("%s %s: %v", obj.GetName(), c["type"], c["message"]))
		}
	}
	return strings.Join(text, "; ")
}

// desired is how many Machines all owners have to have.
func (w *World) desired() int {
	n := 0
	for _, o := range w.owners {
		n += o.desired()
	}
	return n
}
