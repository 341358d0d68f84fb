package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

const (
	// Bound is the virtual time in which everything desired is reached once the faults have stopped.
	Bound = 2 * time.Hour
	// quietFor is how long there must be silence, after as long a time in which the last statuses are written.
	quietFor = time.Hour
	// mostRounds ends a history that runs in circles without time passing.
	mostRounds = 20000
	// oneFaultIn is how many steps there are to one in which something goes wrong.
	oneFaultIn = 8
)

// Names of the invariants that Run checks.
const (
	Reached = "once the faults have stopped, everything desired is reached"
	Silent  = "then there is silence"
)

// Run runs one history. The error is a *BrokenError, or says that the world could not be made.
func Run(ctx context.Context, choices *Choices, o Options) ([]Event, error) {
	w, err := run(ctx, choices, o)
	if w == nil {
		return nil, err
	}
	return w.history, err
}

func run(ctx context.Context, choices *Choices, o Options) (*World, error) {
	w, err := newWorld(ctx, choices, o)
	if err != nil {
		return nil, fmt.Errorf("make a world: %w", err)
	}
	for i := 0; i < w.options.Steps && w.broken == nil; i++ {
		w.step(ctx)
	}
	w.end(ctx)
	if w.broken != nil {
		w.broken.History, w.broken.Choices = w.history, choices.Made()
		for name, n := range w.seen {
			if strings.HasPrefix(name, faultPrefix) && name != faultPrefix+string(Lag) {
				w.broken.Faults += n
			}
		}
		return w, w.broken
	}
	return w, nil
}

// step does one thing, which the choices select.
func (w *World) step(ctx context.Context) {
	if w.choices.oneIn(oneFaultIn) {
		w.disturb(ctx)
		return
	}
	var possible []func()
	for i, p := range w.processes {
		for _, gk := range w.groupKinds() {
			if k := p.view.kinds[gk]; len(k.pending) > 0 && (!w.has(Lag) || w.choices.pick(3) == 0) {
				possible = append(possible, func() { p.deliver(k) })
			} else if len(k.pending) > 0 {
				w.seen[faultPrefix+string(Lag)]++
			}
		}
		if w.leads[i] && !p.busy {
			for _, q := range p.due() {
				possible = append(possible, func() { w.reconcile(ctx, p, q) })
			}
		}
	}
	for _, i := range w.booted() {
		possible = append(possible, func() { w.joins(ctx, i) })
	}
	if len(possible) == 0 {
		w.pass(time.Duration(1+w.choices.pick(20)) * time.Second)
		return
	}
	possible[w.choices.pick(len(possible))]()
}

func (w *World) reconcile(ctx context.Context, p *process, q queued) {
	p.run(ctx, q)
	if p.crashed && w.broken == nil {
		w.note(p.name, "crashes and starts again", "")
		if err := p.start(ctx); err != nil {
			w.fail("a process starts", err)
		}
	}
}

// between is what happens between two requests of one pass.
func (w *World) between() {
	if w.calm || w.nested > 0 || !w.choices.oneIn(oneBetweenIn) {
		return
	}
	w.nested++
	defer func() { w.nested-- }()
	if w.choices.pick(4) == 3 {
		w.disturb(w.ctx)
	} else {
		w.step(w.ctx)
	}
}

// disturb lets something go wrong, or a person act.
func (w *World) disturb(ctx context.Context) {
	among := []Fault{TwoLeaders, Skew, UserScales, UserDeletes, UserStrips, UserRollsOut}
	fault := among[w.choices.pick(len(among))]
	if !w.has(fault) {
		return
	}
	w.seen[faultPrefix+string(fault)]++
	switch fault { //nolint:exhaustive // those of requests are drawn elsewhere
	case TwoLeaders:
		w.leads[0], w.leads[1] = [][2]bool{{true, true}, {true, false}, {false, true}}[w.choices.pick(3)][0], true
		w.note("lease", fmt.Sprintf("leaders are %v", w.leads), "")
	case Skew:
		p := w.processes[w.choices.pick(len(w.processes))]
		p.skew = time.Duration(w.choices.pick(7)-3) * 20 * time.Second
		w.note(p.name, "has its clock off by "+p.skew.String(), "")
	case UserScales:
		w.scales(ctx)
	case UserDeletes:
		w.deletes(ctx)
	case UserStrips:
		w.strips(ctx)
	case UserRollsOut:
		w.rollsOut(ctx)
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// instances are those of the cloud, in order.
func (w *World) instances() []cloud.Instance {
	all, _ := w.cloud.List(w.ctx, cloud.Request{Cluster: "c1"})
	return all
}

// booted are the instances that run and have no Node.
func (w *World) booted() []cloud.Instance {
	var all []cloud.Instance
	for _, i := range w.instances() {
		if i.State == cloud.Running && w.objects[w.nodeKind()][types.NamespacedName{Name: i.Name}] == nil {
			all = append(all, i)
		}
	}
	return all
}

// joins creates the Node of an instance, as its kubelet does.
func (w *World) joins(ctx context.Context, i cloud.Instance) {
	node := fake.Node(i.Name, i.ProviderID)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.note("kubelet", "create Node "+i.Name, said(w.store.Client().Create(ctx, node)))
}

// pass lets time pass.
func (w *World) pass(d time.Duration) { w.clock.Step(d) }

// end stops the faults, waits until everything desired is reached and until it is silent, and deletes everything.
func (w *World) end(ctx context.Context) {
	w.calm, w.leads = true, []bool{true, false}
	w.note("world", "the faults stop, "+strconv.Itoa(w.desired())+" Machines are desired", "")
	for _, p := range w.processes {
		p.skew = 0
	}
	w.until(ctx, Reached, Bound, func() string { return w.missing(ctx) })
	w.until(ctx, "", quietFor, func() string { return "time" })
	before := w.requests
	w.until(ctx, "", quietFor, func() string { return "time" })
	if n := w.requests - before; n > 0 && w.broken == nil {
		w.fail(Silent, fmt.Errorf("%d requests in %s", n, quietFor))
	}
	if w.broken != nil {
		return
	}
	w.delete(ctx)
	w.until(ctx, "everything goes", Bound, func() string {
		if err := nothingLeft(w); err != nil {
			return err.Error() + " is left"
		}
		return ""
	})
	for _, i := range append(Invariants(), w.options.Invariants...) {
		if i.AtEnd != nil {
			w.fail(i.Name, i.AtEnd(w))
		}
	}
}

// ending reports whether everything is being deleted.
func (w *World) ending() bool {
	root := w.root()
	return root == nil || root.GetDeletionTimestamp() != nil
}

func (w *World) delete(ctx context.Context) {
	w.note("user", "delete everything", "")
	for _, obj := range append(w.Objects(w.scene.kind), w.Objects("Machine")...) {
		if obj.GetName() == RootName || obj.GetName() == ForeignName {
			w.fail("a deletion is accepted", w.store.Client().Delete(ctx, obj.DeepCopy()))
		}
	}
}

// until runs everything fairly, until nothing is missing; with an empty name only for as long.
func (w *World) until(ctx context.Context, name string, limit time.Duration, missing func() string) {
	end := w.Now().Add(limit)
	for range mostRounds {
		if w.broken != nil {
			return
		}
		if w.round(ctx) {
			continue
		}
		text := missing()
		if text == "" {
			return
		}
		if !w.Now().Before(end) {
			if name != "" {
				w.fail(name, fmt.Errorf("after %s: %s", limit, text))
			}
			return
		}
		w.pass(w.wait(end))
	}
	w.fail("time passes", fmt.Errorf("%d rounds without an end", mostRounds))
}

// round does everything that is possible now, and reports whether there was anything.
func (w *World) round(ctx context.Context) (did bool) {
	for i, p := range w.processes {
		for _, gk := range w.groupKinds() {
			for k := p.view.kinds[gk]; len(k.pending) > 0; did = true {
				p.deliver(k)
			}
		}
		if !w.leads[i] {
			continue
		}
		for _, q := range p.due() {
			w.reconcile(ctx, p, q)
			did = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.unseen)) {
		w.collects(ctx, name)
		did = true
	}
	for _, i := range w.booted() {
		w.joins(ctx, i)
		did = true
	}
	return did
}

// collects deletes a Node whose instance is gone, as the cloud controller manager does.
func (w *World) collects(ctx context.Context, name string) {
	delete(w.unseen, name)
	node := &corev1.Node{}
	node.Name = name
	w.note("cloud", "delete Node "+name, said(w.store.Client().Delete(ctx, node)))
}

// wait is how long nothing is due.
func (w *World) wait(end time.Time) time.Duration {
	next := end.Sub(w.Now())
	for i, p := range w.processes {
		for _, q := range p.queue {
			if w.leads[i] {
				next = min(next, q.due.Sub(w.Now()))
			}
		}
	}
	return max(time.Millisecond, min(next, 30*time.Second))
}
