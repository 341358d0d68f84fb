package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

// World is a management cluster with its processes, a cloud and its users, in one goroutine and in virtual time. Its Choices decide
// everything that happens.
type World struct {
	ctx     context.Context //nolint:containedctx // of the one call in which the World lives
	choices *Choices
	options Options
	clock   *clocktesting.FakeClock
	begun   time.Time
	kinds   []fake.ServedKind // of the operator
	// served are the kinds that processes cache and that faults concern, and watched those with the budgets.
	served, watched []schema.GroupVersionKind
	store           *fake.Store
	cloud           *fake.Driver

	processes []*process
	leads     []bool         // by process
	calm      bool           // no faults any more
	drawnTo   map[Fault]bool // the faults of this history
	oneIn     int            // requests to one that goes wrong
	nested    int            // requests that wait for what happens between them
	acting    *process

	actors   []actor
	loops    *fake.Stepped
	missed   map[types.NamespacedName]bool // Nodes that nothing of the library deletes
	far      time.Duration                 // how far clocks were off
	habits   *habits                       // nil in a history whose cloud has none
	backups  backups
	late     []func()                                                       // requests that have not arrived yet
	apps     *apps                                                          // nil without Pods
	zones    []string                                                       // those in which instances are made
	health   *health                                                        // nil without health checks
	objects  map[string]map[types.NamespacedName]*unstructured.Unstructured // by kind
	inOrder  map[string][]*unstructured.Unstructured                        // the objects of a kind, until one changes
	version  string
	requests int // that processes sent to the API server
	owners   []*owner
	clusters []*workloadCluster          // those with Nodes
	homes    map[string]*workloadCluster // of instances, by token
	taken    map[string]bool             // instances that were deleted for another object than their Machine, by token
	session  *session                    // of the request that is being carried out
	belongs  map[types.UID]*owner        // by UID of a set, a Machine or an owner
	sentAt   map[types.UID]int           // what was available when a request was sent, while it arrives late
	ending   bool                        // everything is being deleted
	// originals are kept in one history of some, because that costs time.
	keeps     bool
	originals []original
	pool      *pool // nil unless the root is a MachinePool
	parts     bool  // sets clone from templates
	bare      bool  // sets give their Machines no finalizer: the reconciler of Machines does
	// leaving are the objects of the operator that are gone or being deleted, and how many events there were before.
	leaving  map[types.UID]int
	narrow   *narrowing // nil in a history whose caches show everything
	provided *provided  // nil unless Machines refer to objects of providers
	writers  writers

	by      map[string]*process // of each version, the process that has written it; nil of others
	history History
	seen    Coverage
	broken  *BrokenError
}

// Options have the size of a history. The zero value is ready for use.
type Options struct {
	// Steps are how many things happen before the faults stop, or fewer where they cause a hundred times as many events. Default 150.
	Steps int
	// Invariants are checked in addition to Invariants().
	Invariants []Invariant
}

func kindOf(kind string) schema.GroupVersionKind {
	return fake.MachineGVK().GroupVersion().WithKind(kind)
}

// servedKinds are the kinds that processes cache, in the order in which they are looked at.
func servedKinds(kinds []fake.ServedKind) (all []schema.GroupVersionKind) {
	for _, k := range kinds {
		all = append(all, k.GVK)
	}
	return append(all, corev1.SchemeGroupVersion.WithKind("Node"))
}

// others are the other kinds of Objects.
func others() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Pod"), budgetGVK(),
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), corev1.SchemeGroupVersion.WithKind("Secret"),
	}
}

// Now is the virtual time.
func (w *World) Now() time.Time { return w.clock.Now() }

// Objects returns the objects of a kind as the API server has them, by namespace and name. They must not be changed.
func (w *World) Objects(kind string) []*unstructured.Unstructured {
	if w.inOrder[kind] == nil {
		w.inOrder[kind] = sorted(w.objects[kind])
	}
	return slices.Clone(w.inOrder[kind])
}

// object returns one object; nil without it.
func (w *World) object(kind, namespace, name string) *unstructured.Unstructured {
	return w.objects[kind][types.NamespacedName{Namespace: namespace, Name: name}]
}

func sorted(objects map[types.NamespacedName]*unstructured.Unstructured) []*unstructured.Unstructured {
	all := make([]*unstructured.Unstructured, 0, len(objects))
	for _, key := range slices.SortedFunc(maps.Keys(objects), compareKeys) {
		all = append(all, objects[key])
	}
	return all
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// newWorld has what its Choices draw, a Machine of another owner, and two processes, of which one leads.
func newWorld(ctx context.Context, choices *Choices, o Options) (*World, error) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o.Steps = cmp.Or(o.Steps, 150)
	w := &World{
		ctx: ctx, choices: choices, options: o, kinds: libraryKinds(), begun: begun,
		clock: clocktesting.NewFakeClock(begun), leads: []bool{true, false},
		objects: map[string]map[types.NamespacedName]*unstructured.Unstructured{}, seen: Coverage{},
		inOrder: map[string][]*unstructured.Unstructured{}, leaving: map[types.UID]int{}, belongs: map[types.UID]*owner{},
		homes: map[string]*workloadCluster{}, taken: map[string]bool{}, clusters: []*workloadCluster{{name: "c1", namespace: namespace}},
		missed: map[types.NamespacedName]bool{}, writers: newWriters(), by: map[string]*process{},
	}
	w.drawKinds()
	w.served = servedKinds(w.kinds)
	for _, gvk := range slices.Concat(w.served, others()) {
		w.objects[gvk.Kind] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	w.store = fake.NewStore(fake.Options{Clock: w.clock, OnEvent: w.onEvent, Admit: w.changes, Kinds: w.kinds})
	w.cloud = fake.NewDriver(fake.DriverOptions{Clock: w.clock, Boot: 20 * time.Second, Hidden: 5 * time.Second, Vanish: 15 * time.Second,
		Zones: w.zones})
	w.keeps, w.bare = w.choices.pick(10) == 9, w.choices.pick(2) == 1
	w.drawFaults()
	if w.pool = w.drawPool(); w.provided != nil && w.pool == nil { // that of pools provides their infrastructure objects
		w.provided.driven = w.choices.pick(2) == 1
	}
	w.narrow = w.drawNarrowing()
	w.addActors()
	if err := w.populate(ctx); err != nil {
		return nil, err
	}
	w.watched = append(slices.Clone(w.served), budgetGVK())
	for i := range w.leads {
		p := &process{world: w, name: fmt.Sprintf("manager-%d", i), number: i, stop: func() {}}
		w.processes = append(w.processes, p)
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// onEvent is called by the store for each write.
func (w *World) onEvent(obj *unstructured.Unstructured, removed bool) {
	w.version = obj.GetResourceVersion()
	w.stores(w.clusters[0], obj, removed)
}

// stores is called for each write in a cluster.
func (w *World) stores(in *workloadCluster, obj *unstructured.Unstructured, removed bool) {
	of := w.objects[obj.GetKind()]
	if of == nil {
		return
	}
	key := client.ObjectKeyFromObject(obj)
	if obj.GetKind() == "Node" {
		key.Namespace = in.space
	}
	if w.keeps {
		w.originals = append(w.originals, original{obj, obj.DeepCopy()})
	}
	before := of[key]
	delete(w.inOrder, obj.GetKind())
	if of[key] = obj; removed {
		delete(of, key)
	}
	for _, p := range w.processes {
		for _, gvk := range w.watched {
			if k := p.view.kinds[gvk.GroupKind()]; gvk.Kind == obj.GetKind() && k.session.shows(in) {
				k.pending = append(k.pending, w.sent(p, change{object: obj, removed: removed}, before)...)
			}
		}
		for _, d := range p.drainers() {
			if obj.GetKind() == "Pod" {
				d.observe(change{object: obj, removed: removed})
			}
		}
	}
	w.apps.observe(obj)
	if w.loses(before, obj, removed) {
		w.misses(obj)
	}
	w.belong(obj)
	w.provided.observe(obj)
	for _, o := range w.owners {
		o.noteDesired()
	}
	w.writers.observe(obj, removed)
	e := Write{Before: before, After: obj, Removed: removed, cluster: in}
	w.health.observe(w, e)
	w.leaves(obj, removed)
	w.isWritten(obj, removed)
	w.check(e)
}

// loses reports whether a Machine ends with a write: it is removed, or our finalizer is. A guest's may keep it for longer.
func (w *World) loses(before, now *unstructured.Unstructured, removed bool) bool {
	isLetGo := now.GetDeletionTimestamp() != nil && isHeld(before) && !isHeld(now)
	return now.GetKind() == "Machine" && !w.backups.restores && (removed || isLetGo)
}

// note adds a line to the history.
func (w *World) note(actor, what, answer string) {
	w.history.Events = append(w.history.Events, Event{At: w.Now().Sub(w.begun), Actor: actor, What: what, Answer: answer})
}

// check checks what has to hold after each write.
func (w *World) check(e Write) {
	if w.backups.restores {
		return
	}
	for _, i := range append(Invariants(), w.options.Invariants...) {
		if i.AfterWrite != nil {
			w.fail(i.Name, i.AfterWrite(w, e))
		}
	}
}

// fail keeps the first failure.
func (w *World) fail(invariant string, err error) {
	if err != nil && w.broken == nil {
		w.broken = &BrokenError{Invariant: invariant, Message: err.Error()}
	}
}

func describe(e change) string {
	kind, version := e.object.GetKind(), e.object.GetResourceVersion()
	if e.bookmark {
		return fmt.Sprintf("a bookmark of %ss at %s", kind, version)
	}
	return fmt.Sprintf("%s %s at %s%s", kind, e.object.GetName(), version, map[bool]string{true: ", removed"}[e.removed])
}
