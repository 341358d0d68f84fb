package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/fake"
)

// namespace is where everything is.
const namespace = "default"

// World is a management cluster with its processes, a cloud and its users, in one goroutine and in virtual time. Its Choices decide
// everything that happens.
type World struct {
	ctx     context.Context //nolint:containedctx // of the one call in which the World lives
	choices *Choices
	options Options
	clock   *clocktesting.FakeClock
	begun   time.Time
	store   *fake.Store
	cloud   *fake.Driver

	processes []*process
	leads     []bool // by process
	calm      bool   // no faults any more
	nested    int    // requests that wait for what happens between them
	acting    *process
	unseen    map[string]bool // Nodes that joined while the cache of the process that ended their Machine was behind

	objects  map[schema.GroupKind]map[types.NamespacedName]*unstructured.Unstructured
	version  string
	requests int // that processes sent to the API server
	scene    scene

	history []Event
	seen    Coverage
	broken  *BrokenError
}

// Options say how large a history is. The zero value is ready for use.
type Options struct {
	// Steps are how many things happen before the faults stop. Default 150.
	Steps int
	// Invariants are checked in addition to Invariants().
	Invariants []Invariant
	// Faults are those that may happen. Nil means AllFaults().
	Faults []Fault
}

// Event is one line of a history.
type Event struct {
	// At is the virtual time since the beginning.
	At time.Duration
	// Actor did What, and Answer is what came of it; empty means that it succeeded.
	Actor, What, Answer string
}

// String returns the line.
func (e Event) String() string {
	line := fmt.Sprintf("%9s  %-9s  %s", e.At.Round(time.Millisecond), e.Actor, e.What)
	if e.Answer != "" {
		line += "  ->  " + e.Answer
	}
	return line
}

// BrokenError is a broken invariant.
type BrokenError struct {
	// Invariant is its name, and Message says what is wrong.
	Invariant, Message string
	// History is everything that happened before, and Choices lead there again. Faults is how much of it went wrong or was done by users.
	History []Event
	Choices []uint32
	Faults  int
}

// Error implements error.
func (f *BrokenError) Error() string { return f.Invariant + ": " + f.Message }

func kindOf(kind string) schema.GroupVersionKind {
	return fake.MachineGVK().GroupVersion().WithKind(kind)
}

// kinds are those that processes cache.
func (w *World) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kindOf("Machine"), kindOf("MachineSet"), kindOf("MachineDeployment"), {Version: "v1", Kind: "Node"}}
}

func (w *World) groupKinds() []schema.GroupKind {
	var all []schema.GroupKind
	for _, gvk := range w.kinds() {
		all = append(all, gvk.GroupKind())
	}
	return all
}

func (w *World) groupKind(kind string) schema.GroupKind { return kindOf(kind).GroupKind() }

func (w *World) nodeKind() schema.GroupKind { return schema.GroupKind{Kind: "Node"} }

// Now is the virtual time.
func (w *World) Now() time.Time { return w.clock.Now() }

// Objects returns the objects of a kind as the API server has them, by name. They must not be changed.
func (w *World) Objects(kind string) []*unstructured.Unstructured {
	gk := w.groupKind(kind)
	if kind == "Node" {
		gk = schema.GroupKind{Kind: kind}
	}
	var all []*unstructured.Unstructured
	for _, obj := range w.objects[gk] {
		all = append(all, obj)
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

func (w *World) stored() []*unstructured.Unstructured {
	return slices.Concat(w.Objects("Machine"), w.Objects("MachineSet"), w.Objects("MachineDeployment"), w.Objects("Node"))
}

// newWorld has a set, a Machine of another owner, and two processes, of which one leads.
func newWorld(ctx context.Context, choices *Choices, o Options) (*World, error) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o.Steps = cmp.Or(o.Steps, 150)
	if o.Faults == nil {
		o.Faults = AllFaults()
	}
	w := &World{
		ctx: ctx, choices: choices, options: o, begun: begun, clock: clocktesting.NewFakeClock(begun), leads: []bool{true, false},
		objects: map[schema.GroupKind]map[types.NamespacedName]*unstructured.Unstructured{}, unseen: map[string]bool{}, seen: Coverage{},
	}
	for _, gk := range w.groupKinds() {
		w.objects[gk] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	w.store = fake.NewStore(fake.Options{Clock: w.clock, OnEvent: w.onEvent, Kinds: []fake.ServedKind{
		{GVK: kindOf("Machine"), Status: true}, {GVK: kindOf("MachineSet"), Status: true}, {GVK: kindOf("MachineDeployment"), Status: true},
	}})
	w.cloud = fake.NewDriver(fake.DriverOptions{Clock: w.clock, Boot: 20 * time.Second, Hidden: 5 * time.Second, Vanish: 15 * time.Second})
	if err := w.populate(ctx); err != nil {
		return nil, err
	}
	for i := range w.leads {
		p := &process{world: w, name: fmt.Sprintf("manager-%d", i)}
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
	of := w.objects[obj.GroupVersionKind().GroupKind()]
	if of == nil {
		return
	}
	key := client.ObjectKeyFromObject(obj)
	before := of[key]
	if of[key] = obj; removed {
		delete(of, key)
	}
	for _, p := range w.processes {
		k := p.view.kinds[obj.GroupVersionKind().GroupKind()]
		k.pending = append(k.pending, change{obj, removed})
	}
	if removed && obj.GetKind() == "Machine" && w.acting != nil {
		w.missedNode(obj)
	}
	if obj.GetKind() == w.scene.kind && !removed && obj.GetDeletionTimestamp() == nil {
		w.scene.most, w.scene.least = max(w.scene.most, w.desired()), min(w.scene.least, w.desired())
	}
	w.reasons(obj)
	w.check(Write{Before: before, After: obj, Removed: removed})
}

// reasons counts the reasons of the conditions of an object.
func (w *World) reasons(obj *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	all, _ := conditions.([]any)
	for _, one := range all {
		if c, _ := one.(map[string]any); c != nil {
			w.seen[fmt.Sprintf("reason %s %v %v", obj.GetKind(), c["type"], c["reason"])]++
		}
	}
}

// missedNode remembers the Node of a Machine that is gone, if the process that ended it could not know of the Node. Others collect such
// Nodes: the cloud controller manager, or a person who is told by machineset/guard.
func (w *World) missedNode(machine *unstructured.Unstructured) {
	id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID")
	for _, node := range w.Objects("Node") {
		has, _, _ := unstructured.NestedString(node.Object, "spec", "providerID")
		if has == id && len(nodes{w.acting.view}.ByProviderID(id)) == 0 {
			w.unseen[node.GetName()] = true
		}
	}
}

// note adds a line to the history.
func (w *World) note(actor, what, answer string) {
	w.history = append(w.history, Event{At: w.Now().Sub(w.begun), Actor: actor, What: what, Answer: answer})
}

// check checks what has to hold after each write.
func (w *World) check(e Write) {
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
	text := fmt.Sprintf("%s %s at %s", e.object.GetKind(), e.object.GetName(), e.object.GetResourceVersion())
	if e.removed {
		text += ", removed"
	}
	return text
}
