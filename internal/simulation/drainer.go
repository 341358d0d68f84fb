package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/machine"
)

// drainer drains the Nodes of the Machines of one process, with caches of its own. A crash loses it.
type drainer struct {
	*runner.Runner

	process *process
	session *session         // nil with one workload cluster
	of      *workloadCluster // whose Pods it evicts
	podCache
	budgets budgetCache
	unseen  []*policyv1.PodDisruptionBudget // versions that the process has yet to see; nil is a budget that is gone
	owners  map[string]types.NamespacedName // of what is drained, by Node
	next    time.Time                       // when SendNext may have something to send; zero while only a Step changes that
}

// newDrainer returns a drainer that remembers nothing.
func newDrainer(c *connection) (*drainer, error) {
	p := c.process
	d := &drainer{
		process: p, session: c.session, of: p.world.clusters[0],
		podCache: podCache{nodes: map[string]*followedNode{}}, owners: map[string]types.NamespacedName{},
		budgets: budgetCache{budget: p.world.apps.budget},
	}
	if c.session != nil {
		d.of = c.session.to
	}
	var err error
	d.Runner, err = runner.New(runner.Config{
		Nodes: c, Pods: &d.podCache, Budgets: &d.budgets,
		Evictor: runner.EvictorFunc(d.evict), Deleter: runner.DeleterFunc(d.delete),
		Clock: drainClock{WithTicker: p.world.clock, skewed: skewed{p}}, CallTimeout: time.Hour,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Release implements workload.Drainer.
func (d *drainer) Release(node string) { d.Runner.Release(node) }

// Step implements workload.Drainer.
func (d *drainer) Step(ctx context.Context, r runner.Request) (runner.Result, error) {
	d.next, d.owners[r.Node.Name] = d.process.world.Now(), r.Owner
	return d.Runner.Step(ctx, r)
}

// send sends the next request, if there is one.
func (d *drainer) send(ctx context.Context) {
	d.next = time.Time{}
	defer d.process.world.restart(ctx, d.process)
	sent, again := d.SendNext(ctx)
	if now := d.process.world.Now(); sent {
		d.next = now
	} else if again > 0 {
		d.next = now.Add(again)
	}
}

func (d *drainer) evict(ctx context.Context, pod runner.PodRef, o runner.EvictOptions) error {
	return d.request("evict", pod, func() error { return d.process.world.apps.evictor.Evict(ctx, pod, o) })
}

func (d *drainer) delete(ctx context.Context, pod runner.PodRef, o runner.DeleteOptions) error {
	return d.request("delete", pod, func() error { return d.process.world.apps.deleter.Delete(ctx, pod, o) })
}

func (d *drainer) request(verb string, pod runner.PodRef, call func() error) error {
	w := d.process.world
	return w.request(d.process, Request{Verb: verb, Kind: "Pod", Name: pod.Name, Write: true, session: d.session}, func() error {
		w.apps.remember(w.tasks())
		if verb == "evict" && w.refuses() {
			return w.refusal()
		}
		return call()
	})
}

// workload is the access of a process to the Nodes.
func (p *process) workload() (machine.Workload, error) {
	if len(p.links) > 0 { // no Node is one of a Machine that names no cluster
		return machine.Workload{Nodes: nodes{view: p.view, kind: newViewed()}}, nil
	}
	access := machine.Workload{Nodes: p.nodes(p.world.clusters[0])}
	if p.world.apps == nil {
		return access, nil
	}
	var err error
	p.drainer, err = newDrainer(&connection{WithWatch: p.world.store.Client(), process: p})
	access.Drainer = p.drainer
	return access, err
}

// drainers are those of a process, one for each workload cluster.
func (p *process) drainers() []*drainer {
	all := []*drainer{p.drainer}
	for _, l := range p.links {
		all = append(all, l.drainer)
	}
	return slices.DeleteFunc(all, func(d *drainer) bool { return d == nil })
}

// drainers are the drainers of all processes, as an actor.
type drainers struct{}

func (drainers) can(ctx context.Context, w *World) []func() {
	var all []func()
	for i, p := range w.processes {
		for _, d := range p.drainers() {
			all = append(all, d.errands(ctx, w.leads[i])...)
		}
	}
	return all
}

func (drainers) next(w *World) time.Time {
	var times []time.Time
	for i, p := range w.processes {
		if !w.leads[i] {
			continue
		}
		for _, d := range p.drainers() {
			times = append(times, d.next)
			for _, f := range d.nodes {
				times = append(times, f.again) // a list that has succeeded is not before it
			}
		}
	}
	return soonest(w, times...)
}

// hear takes an event of the API server, which the process has yet to see.
func (d *drainer) hear(pod *corev1.Pod, removed bool) {
	if d.of == d.process.world.clusters[0] {
		d.podCache.hear(pod, removed)
	}
}

// errands are what the caches and the requests of a drainer can do now.
func (d *drainer) errands(ctx context.Context, leads bool) []func() {
	var all []func()
	for _, node := range slices.Sorted(maps.Keys(d.nodes)) {
		f := d.nodes[node]
		switch {
		case !f.listed && f.again.After(d.process.world.Now()):
		case !f.listed && leads:
			all = append(all, func() { d.list(ctx, node, f) })
		case len(f.pending) > 0:
			all = append(all, func() { d.sees(node, f) })
		}
	}
	if len(d.unseen) > 0 {
		all = append(all, d.seesBudget)
	}
	if leads && !d.next.IsZero() && !d.next.After(d.process.world.Now()) {
		all = append(all, func() { d.send(ctx) })
	}
	return all
}

// list begins the watch of a Node.
func (d *drainer) list(ctx context.Context, node string, f *followedNode) {
	w := d.process.world
	err := w.request(d.process, Request{Verb: "list", Kind: "Pod", Name: "of " + node, session: d.session}, func() error {
		f.list(w.podsIn(d.of, node))
		return nil
	})
	if err != nil { // the answer did not arrive
		f.listed, f.again = false, w.Now().Add(time.Second) // as a reflector does, about
	}
	w.restart(ctx, d.process)
	d.wakeOwner(node)
}

// sees shows the process the oldest event of a Node, unless that was shown between two requests of another errand.
func (d *drainer) sees(node string, f *followedNode) {
	if len(f.pending) == 0 {
		return
	}
	e := f.deliver()
	text := "sees Pod " + e.pod.Name + " at " + e.pod.ResourceVersion
	if e.removed {
		text += ", removed"
	}
	d.process.world.note(d.process.name, text, "")
	d.wakeOwner(node)
}

// seesBudget shows it the oldest version of the budget, likewise.
func (d *drainer) seesBudget() {
	if len(d.unseen) == 0 {
		return
	}
	d.budgets.budget, d.unseen = d.unseen[0], d.unseen[1:]
	text := "sees that the budget is gone"
	if b := d.budgets.budget; b != nil {
		text = "sees PodDisruptionBudget " + b.Name + " at " + b.ResourceVersion
	}
	d.process.world.note(d.process.name, text, "")
	for _, node := range slices.Sorted(maps.Keys(d.nodes)) {
		d.wakeOwner(node)
	}
}

// wakeOwner wakes whoever drains a Node, as the Run of a runner.Runner does when the Pods of the Node or a budget change.
func (d *drainer) wakeOwner(node string) {
	owner, known := d.owners[node]
	for i := range d.process.all {
		if known {
			d.process.wake(i, owner, 0)
		}
	}
}
