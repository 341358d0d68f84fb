package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// backups are those of the management cluster: of the Machines and their owners, not of the Nodes, and not of the cloud.
type backups struct {
	last     *fake.Backup
	at       time.Time // of the last one
	ended    time.Time // when one was restored
	restored bool
	restores bool // at this moment
	crossed  bool // a request arrived, or created a set, that was planned before one was restored
	event    int  // how many events there were when one was restored
}

// restores takes a backup the first time, and restores it the next time. Then every cache lists again; a process may also start anew.
func (w *World) restores(ctx context.Context) {
	b := &w.backups
	if b.last == nil {
		taken := w.store.Backup(w.managementKinds()...)
		b.last, b.at = &taken, w.Now()
		w.note("user", "backs up the management cluster", "")
		return
	}
	backup, at := b.last, b.at
	if b.last = nil; w.choices.pick(2) == 1 {
		w.mistakes(ctx)
	}
	w.note("user", fmt.Sprintf("restores the backup from %s ago", w.Now().Sub(at)), "")
	b.restored, b.restores, b.ended, b.event = true, true, w.Now(), len(w.history.Events)
	w.store.Restore(*backup)
	b.restores = false
	for _, p := range w.processes {
		switch {
		case w.choices.pick(2) == 0:
			for _, gvk := range w.served {
				w.relist(p, gvk)
			}
		case p.busy:
			p.crashed = true
		default:
			w.fail("a process starts", p.start(ctx))
		}
	}
}

// crosses reports whether a write is, or may be, one of a pass that began before a backup was restored. No version of an object makes
// the API server refuse a creation: a set that such a pass creates has the replicas of a plan that knows no Machine of the backup, and no
// ledger has it.
func (w *World) crosses(e Write) bool {
	is := w.acting != nil && w.acting.began < w.backups.event
	w.backups.crossed = w.backups.crossed || is && e.Before == nil && e.After.GetKind() == "MachineSet"
	return is || w.backups.restored && w.Now().Sub(w.backups.ended) < time.Second
}

// mistakes is a person who scales down, and restores the backup as soon as Machines go.
func (w *World) mistakes(ctx context.Context) {
	if w.nested > 0 || !w.has(UserScales) {
		return
	}
	o := w.chosen((*owner).hasSets)
	if o == nil {
		return
	}
	w.seen[faultPrefix+string(UserScales)]++
	w.patch(ctx, o.named(), fmt.Sprintf(`{"spec":{"replicas":%d}}`, w.choices.pick(2)))
	for range mistakeSteps {
		if w.broken != nil || slices.ContainsFunc(w.owned(), func(m *unstructured.Unstructured) bool { return m.GetDeletionTimestamp() != nil }) {
			return
		}
		w.step(ctx)
	}
}

// mistakeSteps is how many things happen at most before a person sees a mistake.
const mistakeSteps = 30

// managementKinds are those of the operator.
func (w *World) managementKinds() []schema.GroupKind {
	all := make([]schema.GroupKind, 0, len(w.kinds))
	for _, k := range w.kinds {
		all = append(all, k.GVK.GroupKind())
	}
	return all
}

// relists lets a watch of a process skip events: the answer is 410, and the cache lists again.
func (w *World) relists(context.Context) {
	p, gvk := w.processes[w.choices.pick(len(w.processes))], w.served[w.choices.pick(len(w.served))]
	w.note(p.name, "lists every "+gvk.Kind+" again after 410", "")
	w.relist(p, gvk)
}

func (w *World) relist(p *process, gvk schema.GroupVersionKind) {
	k := p.view.kinds[gvk.GroupKind()]
	if k.session.isAway(w) {
		return
	}
	k.list(w.shown(p, gvk), w.version)
}

// hasMachine reports whether an object of the operator has a UID, which may be the token of a pool. A Machine in deletion whose
// infrastructure object is gone ends no instance.
func (w *World) hasMachine(uid string) bool {
	return isOfPool(uid) || slices.ContainsFunc(w.ours(), func(obj *unstructured.Unstructured) bool {
		ends := w.provided == nil || w.object(partGVK().Kind, obj.GetNamespace(), obj.GetName()) != nil
		return string(obj.GetUID()) == uid && (obj.GetDeletionTimestamp() == nil || ends)
	})
}

// hasInstance reports whether the instance of a Node is among some. The provider of a pool collects the Nodes of that.
func (w *World) hasInstance(node *unstructured.Unstructured, instances []cloud.Instance) bool {
	return isOfPool(node.GetName()) || node.GetName() == otherNode || runsOnAny(node, instances)
}

func runsOnAny(node *unstructured.Unstructured, instances []cloud.Instance) bool {
	return slices.ContainsFunc(instances, func(i cloud.Instance) bool { return sameID(i.ProviderID, providerIDIn(node)) })
}

// collects deletes a Node whose instance is gone, as the cloud controller manager does.
func (w *World) collects(ctx context.Context, node client.Object) {
	w.note("cloud", "delete Node "+node.GetName(), said(w.clientOf(node).Delete(ctx, copied(node))))
}
