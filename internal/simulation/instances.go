package simulation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/instance"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// looksAgain: the provider has reported several times that there is no instance, which runs.
func looksAgain(w *World, e Write) error {
	was, is := reasonOf(e.Before, contract.ConditionInfrastructureReady), reasonOf(e.After, contract.ConditionInfrastructureReady)
	if w.habits == nil || w.acting == nil || e.Before == nil || e.Removed || is != instance.ReasonGone || was == instance.ReasonGone {
		return nil
	}
	for _, i := range w.instances() {
		if w.isOwn(e.After, i) && i.State != cloud.Deleting && !w.habits.reportedGone(i.Token) {
			return fmt.Errorf("%s has its instance %s as gone, after %d looks", e.After.GetName(), i.ProviderID, w.habits.of(i.Token).denied)
		}
	}
	return nil
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
		if sameID(i.ProviderID, id) && !w.isOwn(e.After, i) {
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
	return textAt(m, "spec", "providerID")
}

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

// isOwn reports whether an instance is that of a Machine, and not one beside it. That of a pool is made before its Machine.
func (w *World) isOwn(m *unstructured.Unstructured, i cloud.Instance) bool {
	id := providerIDIn(m)
	if isOfPool(i.Name) {
		return m.GetKind() == "Machine" && !isMisplaced(m) && sameID(id, i.ProviderID)
	}
	return (string(m.GetUID()) == tokenOf(i) || w.provided.isFor(i.Token, m)) && (id == "" || sameID(id, i.ProviderID))
}

// lookedEvery is the longest time between two looks at an instance that runs, with the pause after an error.
const lookedEvery = 25 * time.Minute

// leaks returns what a cloud with habits has left that a Machine does not have, or the other way around, or what nothing looks at; empty
// when there is nothing.
func (w *World) leaks() string {
	if w.habits == nil {
		return ""
	}
	for _, i := range w.instances() {
		if i.State != cloud.Deleting && w.holderOf(i) == nil && !isOfPool(i.Name) { // or it is beside the recorded one of a Machine
			return "no Machine has the instance " + i.Name
		}
	}
	for _, m := range w.owned() {
		id, looked := providerIDIn(m), w.habits.of(string(m.GetUID())).looked
		if has := slices.ContainsFunc(w.instances(), func(i cloud.Instance) bool { return sameID(id, i.ProviderID) }); !has {
			return "Machine " + m.GetName() + " is Running, and its instance " + id + " is gone"
		}
		if since := w.Now().Sub(looked); since > lookedEvery {
			return fmt.Sprintf("nothing has looked at the instance of Machine %s for %s", m.GetName(), since)
		}
	}
	return ""
}

// staysForOthers is checked before a process has an instance deleted: no Machine names it that stays and that its cache has shown to do so,
// unless it is gone or believed to be. A copy in another namespace does not hold the Machine that the instance was made for.
func (p *process) staysForOthers(r *cloud.Request) error {
	w := p.world
	all := slices.DeleteFunc(w.instances(), func(i cloud.Instance) bool {
		return !sameID(i.ProviderID, r.ProviderID) || i.State == cloud.Deleting || w.habits.reportedGone(i.Token)
	})
	for _, i := range all {
		w.taken[i.Token] = w.taken[i.Token] || tokenOf(i) != r.Token
	}
	if len(all) == 0 {
		return nil
	}
	stays := func(m *unstructured.Unstructured) bool {
		return m != nil && m.GetDeletionTimestamp() == nil && sameID(providerIDIn(m), r.ProviderID)
	}
	for _, m := range w.Objects("Machine") {
		shown := p.view.shown("Machine")[client.ObjectKeyFromObject(m)]
		own := w.provided.isFor(r.Token, m) || isMisplaced(m) && tokenOf(all[0]) == r.Token
		if stays(m) && stays(shown) && !own && !w.revived(p, m) {
			return fmt.Errorf("%s is deleted for %s, and Machine %s/%s has it", r.ProviderID, r.Name, m.GetNamespace(), m.GetName())
		}
	}
	return nil
}
