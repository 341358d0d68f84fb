package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
		var kinds []schema.GroupKind
		for _, k := range w.kinds {
			kinds = append(kinds, k.GVK.GroupKind())
		}
		taken := w.store.Backup(kinds...)
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
		if w.choices.pick(2) == 1 {
			w.startAnew(p)
			continue
		}
		for _, gvk := range w.served {
			w.relist(p, gvk)
		}
	}
}

// crosses reports whether a write is, or may be, one of a pass that began before a backup was restored. No version of an object makes
// the API server refuse a creation: a set that such a pass creates has the replicas of a plan without the Machines of the backup, and no
// ledger has it.
func (w *World) crosses(e Write) bool {
	is := w.acting != nil && w.acting.began < w.backups.event
	w.backups.crossed = w.backups.crossed || is && e.Before == nil && e.After.GetKind() == "MachineSet"
	return is || w.restoredWithin(time.Second)
}

// restoredWithin reports whether a backup was restored no longer ago than that.
func (w *World) restoredWithin(d time.Duration) bool {
	return w.backups.restored && w.Now().Sub(w.backups.ended) < d
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
	w.counts(UserScales)
	w.patch(ctx, o.named(), patchOf(w.choices.pick(2), "spec", "replicas"))
	for range mistakeSteps {
		if w.broken != nil || slices.ContainsFunc(w.owned(), func(m *unstructured.Unstructured) bool { return m.GetDeletionTimestamp() != nil }) {
			return
		}
		w.step(ctx)
	}
}

// mistakeSteps is how many things happen at most before a person sees a mistake.
const mistakeSteps = 30

// relists makes a watch of a process skip events: the answer is 410, and the cache lists again.
func (w *World) relists(context.Context) {
	p, gvk := oneOf(w, w.processes...), oneOf(w, w.served...)
	w.note(p.name, "lists every "+gvk.Kind+" again after 410", "")
	w.relist(p, gvk)
}

func (w *World) relist(p *process, gvk schema.GroupVersionKind) {
	if k := p.view.kinds[gvk.GroupKind()]; !k.session.isAway(w) {
		k.list(w.shown(p, gvk), w.version)
	}
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
	w.note("cloud", "delete Node "+node.GetName(), textOf(w.clientOf(node).Delete(ctx, copied(node))))
}

// misplaced is the namespace of copies: they have other UIDs, and the recorded instances, Nodes, ledgers and marks of the originals.
const misplaced = "misplaced"

// restoresElsewhere copies the Machines, sets and deployments with what they refer to, or deletes the copies. Some tools keep owner
// references, and the garbage collector then deletes copies whose owners have other UIDs.
func (w *World) restoresElsewhere(ctx context.Context) {
	if w.deletesMisplaced(ctx) != "" {
		return
	}
	keeps := w.choices.pick(2) == 1
	for _, obj := range w.ours() {
		if obj.GetNamespace() == namespace && !slices.Contains([]string{poolKind, poolInfraKind, checkKind}, obj.GetKind()) {
			w.copies(obj, misplaced, keeps)
		}
	}
}

// copies creates an object again, with its owners or without.
func (w *World) copies(obj *unstructured.Unstructured, namespace string, owned bool) {
	twin := obj.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "deletionTimestamp", "creationTimestamp"} {
		unstructured.RemoveNestedField(twin.Object, "metadata", field)
	}
	if twin.SetNamespace(namespace); !owned {
		twin.SetOwnerReferences(nil)
	}
	w.note("user", fmt.Sprintf("create %s %s in namespace %s", obj.GetKind(), obj.GetName(), namespace),
		textOf(w.store.Client().Create(w.ctx, twin)))
}

// deletesMisplaced deletes the copies, and returns what is there of them. Once the faults have stopped, a person leaves the instances of
// copies to the originals, where a condition names the provider ID: other copies have made instances of their own, which they delete.
func (w *World) deletesMisplaced(ctx context.Context) (left string) {
	for _, obj := range slices.DeleteFunc(w.ours(), func(obj *unstructured.Unstructured) bool { return !isMisplaced(obj) }) {
		left = fmt.Sprintf("the copy of %s %s: %s", obj.GetKind(), obj.GetName(), messages(obj))
		if obj.GetDeletionTimestamp() != nil && w.calm && strings.Contains(left, `spec.providerID "`) {
			w.patch(ctx, obj, `{"metadata":{"finalizers":null},"spec":{"providerID":null}}`)
		}
		if obj.GetDeletionTimestamp() == nil {
			w.deletes(obj, ", a copy")
		}
	}
	return left
}

// isMisplaced reports whether an object is a copy in another namespace.
func isMisplaced(obj *unstructured.Unstructured) bool { return obj.GetNamespace() == misplaced }
