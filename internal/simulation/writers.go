package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// writers are the other writers of a history, and what the invariants excuse because of them.
type writers struct {
	webhook *webhook
	// change is what it does to what the request stores that is being carried out; nil for nothing.
	change func(*unstructured.Unstructured)
	fights []*fight
	// guests are the kinds to which a controller adds its finalizer, and stay is for how long after a deletion.
	guests map[string]bool
	stay   time.Duration
	// manifests are what GitOps applies, next at a time.
	manifests []*unstructured.Unstructured
	applies   time.Time
	// templates are those that are gone.
	templates []*unstructured.Unstructured
	// first are earlier versions of objects.
	first map[types.UID]*unstructured.Unstructured
	// released are objects whose finalizers somebody has taken away, until they have them again: their instances are a person's.
	released map[types.UID]bool
	// freed are Machines and sets that somebody has taken from their owners.
	freed map[types.UID]bool
	// uncordoned are Nodes that a controller has made schedulable again: Pods may come between their drain and their end.
	uncordoned map[types.UID]bool
	// unrecorded are Nodes that somebody has taken the record of their drain from, which has who cordoned them.
	unrecorded map[types.UID]bool
	// idle is until when a provider does nothing for an object.
	idle map[types.UID]time.Time
	// sent are the writes of processes in a fight.
	sent map[string]*rate.Limiter
}

func newWriters() writers {
	return writers{
		guests: map[string]bool{}, first: map[types.UID]*unstructured.Unstructured{}, released: map[types.UID]bool{},
		freed: map[types.UID]bool{}, uncordoned: map[types.UID]bool{}, unrecorded: map[types.UID]bool{},
		sent: map[string]*rate.Limiter{}, idle: map[types.UID]time.Time{},
	}
}

// writerDisturbances are the faults of those who write objects beside the library, and against it: webhooks that act on what the
// processes write, for one kind and for a time, people who edit any object that processes cache, and other controllers.
func writerDisturbances() []disturbance {
	return []disturbance{
		{"webhook refuses", (*World).webhookRefuses},
		{"webhook rewrites", func(w *World, _ context.Context) {
			w.begins(webhook{kind: w.anyServed(), change: rewrites}, "rewrites")
		}},
		{"webhook strips", func(w *World, _ context.Context) {
			w.webhookRemoves("strips ", oneOf(w, "labels", "annotations", "ownerReferences", "finalizers"))
		}},
		{WebhookPrunes, func(w *World, _ context.Context) { w.webhookRemoves("prunes ", "status") }},
		takes("user takes finalizers", "finalizers"), takes("user takes labels", "labels"),
		takes("user takes annotations", "annotations"), takes("user takes owner references", "ownerReferences"),
		edit("user replaces by an old object", (*World).cached, (*World).replaces),
		edit("user deletes anything", (*World).noRoots, (*World).deletesAny),
		{"fight", (*World).fightBegins}, {"finalizers of another controller", (*World).guestsCome}, {"GitOps", (*World).gitOpsBegins},
	}
}

// takes is called before somebody takes a field from an object.
func (w *World) takes(obj *unstructured.Unstructured, path []string) {
	switch o, of := &w.writers, path[1]; {
	case of == "unschedulable":
		o.uncordoned[obj.GetUID()] = true
	case path[len(path)-1] == contract.DrainStartedAnnotation:
		o.unrecorded[obj.GetUID()] = true
	case of == "labels", of == "ownerReferences", of == "finalizers" && obj.GetKind() == "MachineSet":
		o.freed[obj.GetUID()] = true
	case of == "finalizers" && w.provided != nil && obj.GetKind() == partGVK().Kind:
		w.provided.unheld[obj.GetName()] = true
	case of == "finalizers" && isHeld(obj):
		o.released[obj.GetUID()] = true
	}
}

// isReleased reports whether an instance is a person's: somebody has taken the finalizer of what held it.
func (w *World) isReleased(i cloud.Instance) bool {
	return w.writers.released[types.UID(i.Token)] || w.provided != nil && w.provided.unheld[i.Name]
}

// isFreed reports whether somebody has taken from a Machine, or from its set, what its owner finds and counts it by.
func (w *World) isFreed(m *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(m)
	return w.writers.freed[m.GetUID()] || owner != nil && w.writers.freed[owner.UID]
}

// observe takes a write.
func (o *writers) observe(obj *unstructured.Unstructured, removed bool) {
	if o.first[obj.GetUID()] == nil {
		o.first[obj.GetUID()] = obj
	}
	if removed && isTemplate(obj) && !isMisplaced(obj) {
		o.templates = append(o.templates, obj)
	}
	if isHeld(obj) && !removed {
		delete(o.released, obj.GetUID())
	}
}

// fight is a controller that removes a field from the objects of a kind each time that it appears.
type fight struct {
	kind string
	path []string
	// until is when it ends at the latest. due is when it acts next on an object, and undone how often it has.
	until  time.Time
	due    map[types.UID]time.Time
	undone map[types.UID]int
}

const (
	// reaction is how long a controller takes to undo, mostUndone how often one does for an object, and mostFights how many act at once.
	reaction   = 200 * time.Millisecond
	mostUndone = 60
	mostFights = 3
)

// fightBegins is about cordons, owner references, or a label or an annotation of ours.
func (w *World) fightBegins(context.Context) {
	class := oneOf(w, "unschedulable", "labels", "annotations", "ownerReferences")
	kind, path := w.anyField(class, func(path []string) bool {
		key := path[len(path)-1]
		return class == key && len(path) == 2 && class != "labels" && class != "annotations" ||
			len(path) == 3 && (strings.Contains(key, contract.LabelPrefix) || strings.Contains(key, "machinist.dev/"))
	})
	if path == nil {
		return
	}
	f := &fight{kind: kind, path: path, until: w.lastLong(), due: map[types.UID]time.Time{}, undone: map[types.UID]int{}}
	w.writers.fights = append(w.writers.fights, f)
	w.writers.fights = w.writers.fights[max(0, len(w.writers.fights)-mostFights):]
	w.seen["fight over "+path[1]]++
	w.note("opponent", fmt.Sprintf("removes %s from each %s until %s", strings.Join(path, "."), kind, f.until.Sub(w.begun)), "")
}

// isOver reports whether a fight has ended.
func (f *fight) isOver(w *World) bool { return w.calm || w.exhausted() || !w.Now().Before(f.until) }

// opponents are the controllers that undo.
func opponents(ctx context.Context, w *World) (all []due) {
	for _, f := range w.writers.fights {
		before := f.due
		f.due = map[types.UID]time.Time{}
		for _, obj := range w.Objects(f.kind) {
			uid := obj.GetUID()
			_, has, _ := unstructured.NestedFieldNoCopy(obj.Object, f.path...)
			if !has || f.isOver(w) || isForeign(obj) || f.undone[uid] >= mostUndone {
				continue
			}
			if f.due[uid] = before[uid]; before[uid].IsZero() {
				f.due[uid] = w.Now().Add(reaction)
			}
			all = append(all, due{at: f.due[uid], do: func() {
				f.undone[uid]++
				delete(f.due, uid)
				w.patchAs(ctx, "opponent", obj, w.without(obj, f.path))
			}})
		}
	}
	return all
}

// guestFinalizer is that of a controller that has nothing to do with the library.
const guestFinalizer = "example.com/guest"

func (w *World) guestsCome(context.Context) {
	kind := w.anyServed()
	w.writers.guests[kind] = true
	w.writers.stay = oneOf(w, time.Minute, 5*time.Minute, 15*time.Minute)
	w.note("guest", "adds its finalizer to each "+kind, "")
}

// guests are that controller.
func guests(ctx context.Context, w *World) (all []due) {
	for _, kind := range slices.Sorted(maps.Keys(w.writers.guests)) {
		for _, obj := range w.Objects(kind) {
			at, held := obj.GetDeletionTimestamp(), slices.Contains(obj.GetFinalizers(), guestFinalizer)
			leaves := w.calm || at != nil && !w.Now().Before(at.Add(w.writers.stay))
			if held && leaves || !held && !w.calm && at == nil && !isForeign(obj) {
				all = append(all, due{do: func() { w.patchAs(ctx, "guest", obj, withFinalizer(obj, guestFinalizer, !held)) }})
			}
		}
	}
	return all
}

// withFinalizer is the patch after which an object has a finalizer beside those of others, or has it no more.
func withFinalizer(obj *unstructured.Unstructured, name string, on bool) string {
	all := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == name })
	if on {
		all = append(all, name)
	}
	return jsonOf(map[string]any{"metadata": map[string]any{"finalizers": all, "resourceVersion": obj.GetResourceVersion()}})
}

// gitOpsEvery is the time between two applications of the same manifests.
const gitOpsEvery = 5 * time.Minute

// gitOpsBegins takes the roots as they are.
func (w *World) gitOpsBegins(context.Context) {
	w.writers.manifests, w.writers.applies = nil, w.Now()
	for _, o := range w.owners {
		if o.leaves() || !o.hasReplicas() {
			continue
		}
		spec, _, _ := unstructured.NestedMap(o.stored().Object, "spec")
		for _, field := range []string{"replicas", "paused", "providerIDList", "clusterName"} { // they are others' fields
			delete(spec, field)
		}
		unstructured.RemoveNestedField(spec, "template", "spec", "clusterName")
		manifest := o.named()
		manifest.Object["spec"] = spec
		w.writers.manifests = append(w.writers.manifests, manifest)
	}
	w.note("gitops", fmt.Sprintf("has %d manifests", len(w.writers.manifests)), "")
}

// gitOps applies the manifests, also once the faults have stopped.
func gitOps(ctx context.Context, w *World) []due {
	if len(w.writers.manifests) == 0 {
		return nil
	}
	return []due{{at: w.writers.applies, do: func() {
		w.writers.applies = w.Now().Add(gitOpsEvery)
		for _, manifest := range w.writers.manifests {
			now, before := w.object(manifest.GetKind(), manifest.GetNamespace(), manifest.GetName()), w.version
			if now == nil || now.GetDeletionTimestamp() != nil {
				continue
			}
			err := w.store.Client().Apply(ctx, client.ApplyConfigurationFromUnstructured(manifest.DeepCopy()), client.ForceOwnership,
				client.FieldOwner("gitops"))
			if err != nil || w.version != before {
				w.note("gitops", "apply "+manifest.GetKind()+" "+manifest.GetName(), textOf(err))
			}
		}
	}}}
}

// burst is how many writes at once are allowed while one or two undo something of an object. Package patch allows for five of each content
// that is undone, and each further opponent doubles the contents.
const burst = 20

// isSlow counts a request that has written: one that the API server refuses is no write.
func (w *World) isSlow(p *process, r Request) error {
	if !slices.ContainsFunc(w.writers.fights, func(f *fight) bool { return !f.isOver(w) }) {
		clear(w.writers.sent)
		return nil
	}
	undoing := len(slices.DeleteFunc(slices.Clone(w.writers.fights), func(f *fight) bool { return f.isOver(w) || f.kind != r.Kind }))
	if h := w.writers.webhook; h != nil && h.kind == r.Kind && h.change != nil && w.Now().Before(h.until) {
		undoing++
	}
	more := max(0, undoing-2)
	name := fmt.Sprint(p.name, " in its life ", p.life, " ", r.Kind, " ", r.Namespace, " ", r.Name) // a new process has no record of a fight
	key := fmt.Sprint(name, more)
	if w.writers.sent[key] == nil {
		w.writers.sent[key] = rate.NewLimiter(1, burst<<more+1)
	}
	if r.Write && !r.Cloud && !w.writers.sent[key].AllowN(w.Now(), 1) {
		return fmt.Errorf("%s has more than one write a second", name)
	}
	return nil
}
