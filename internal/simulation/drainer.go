package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

// drainer drains the Nodes of the Machines of one process. A crash loses it.
type drainer struct {
	*runner.Runner

	process *process
	session *session // nil with one workload cluster
	pods    podCache
	owners  map[string]types.NamespacedName // of what is drained, by Node
	next    time.Time                       // when SendNext may have something to send; zero while only a Step changes that
}

// podCache has the Pods of draining Nodes, for one process. As in a runner.Runner of a cluster, the first look at a Node begins a list,
// which is a consistent read; later events come in their order, each when it is chosen.
type podCache map[string]*viewed

var _ runner.PodSource = podCache{}

// Pods implements runner.PodSource.
func (c podCache) Pods(node string) ([]*corev1.Pod, bool, error) {
	if c[node] == nil {
		c[node] = newViewed("Pod")
		c[node].unlisted = true
	}
	var all []*corev1.Pod
	for _, obj := range c[node].sorted() {
		all = append(all, typed[corev1.Pod](obj))
	}
	return all, !c[node].unlisted, nil
}

// Release implements runner.PodSource.
func (c podCache) Release(node string) { delete(c, node) }

// Run implements runner.PodSource. It is not called: the World wakes reconcilers itself.
func (c podCache) Run(context.Context, func(string)) error { return nil }

// newDrainer returns a drainer that remembers nothing.
func newDrainer(c connection, of *fake.Store) (d *drainer, err error) {
	p := c.process
	d = &drainer{process: p, session: c.session, pods: podCache{}, owners: map[string]types.NamespacedName{}}
	d.Runner, err = runner.New(runner.Config{
		Nodes: c.client(of), Pods: d.pods, Budgets: p.budgets, Evictor: requests{d}, Clock: p.clock(), CallTimeout: time.Hour,
	})
	return d, err
}

// budgets is the Budgets of a runner.Config.
func (p *process) budgets(ctx context.Context, namespace string) (budgets []*policyv1.PodDisruptionBudget, err error) {
	var list policyv1.PodDisruptionBudgetList
	err = p.view.List(ctx, &list, client.InNamespace(namespace))
	for i := range list.Items {
		budgets = append(budgets, &list.Items[i])
	}
	return budgets, err
}

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
	if sent || again > 0 {
		d.next = d.process.world.Now().Add(again)
	}
}

// requests sends what a drainer requests.
type requests struct{ *drainer }

// Evict implements runner.Evictor.
func (e requests) Evict(ctx context.Context, pod runner.PodRef, grace *int64) error {
	return e.request("evict", pod, func() error { return e.process.world.apps.evictor.Evict(ctx, pod, grace) })
}

// Delete implements runner.Evictor.
func (e requests) Delete(ctx context.Context, pod runner.PodRef, grace *int64) error {
	return e.request("delete", pod, func() error { return e.process.world.apps.evictor.Delete(ctx, pod, grace) })
}

func (d *drainer) request(verb string, pod runner.PodRef, call func() error) error {
	w := d.process.world
	return w.request(d.process, Request{Verb: verb, Kind: "Pod", Name: pod.Name, Write: true, session: d.session}, func() error {
		w.apps.before = w.budget()
		w.apps.current = !slices.ContainsFunc(w.loops.Tasks(), func(t fake.Task) bool { return t.Loop == "budgets" })
		if verb == "evict" && w.strikes(EvictionRefused, 3) {
			return w.refusal()
		}
		return call()
	})
}

// workload is the access of a process to the Nodes.
func (p *process) workload() (access machine.Workload, err error) {
	if len(p.links) > 0 { // no Node is one of a Machine that names no cluster
		return machine.Workload{Nodes: newViewed("Node").nodes}, nil
	}
	if access.Nodes = p.nodes(p.world.clusters[0]); p.world.apps != nil {
		p.drainer, err = newDrainer(connection{process: p}, p.world.store)
		access.Drainer = p.drainer
	}
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

// drainers are the drainers of all processes that lead, as an actor.
func drainers(ctx context.Context, w *World) (all []due) {
	for i, p := range w.processes {
		if !w.leads[i] {
			continue
		}
		for _, d := range p.drainers() {
			for _, node := range slices.Sorted(maps.Keys(d.pods)) {
				if f := d.pods[node]; f.unlisted {
					all = append(all, due{at: f.stalled, do: func() { d.list(ctx, node, f) }})
				}
			}
			if !d.next.IsZero() {
				all = append(all, due{at: d.next, do: func() { d.send(ctx) }})
			}
		}
	}
	return all
}

// followed are its watches of Pods.
func (d *drainer) followed() (all []*viewed) {
	for _, node := range slices.Sorted(maps.Keys(d.pods)) {
		all = append(all, d.pods[node])
	}
	return all
}

// hasPods reports whether the Nodes are those of the first cluster: only that has some.
func (d *drainer) hasPods() bool {
	return d.session == nil || d.session.to == d.process.world.clusters[0]
}

// observe takes a write of a Pod, which the watch of the process has yet to show.
func (d *drainer) observe(e change) {
	if f := d.pods[textAt(e.object, "spec", "nodeName")]; f != nil && !f.unlisted && d.hasPods() {
		f.pending = append(f.pending, e)
	}
}

// list begins the watch of a Node.
func (d *drainer) list(ctx context.Context, node string, f *viewed) {
	w := d.process.world
	err := w.request(d.process, Request{Verb: "list", Kind: "Pod", Name: "of " + node, session: d.session}, func() error {
		f.list(slices.DeleteFunc(w.Objects("Pod"), func(pod *unstructured.Unstructured) bool {
			return !d.hasPods() || textAt(pod, "spec", "nodeName") != node
		}), w.version)
		return nil
	})
	if err != nil { // the answer did not arrive
		f.unlisted, f.stalled = true, w.Now().Add(time.Second) // as a reflector does, about
	}
	w.restart(ctx, d.process)
	d.wakeOwner(node)
}

// shows is called for what a watch of the process has shown, and wakes whom it concerns, as the Run of a runner.Runner does.
func (d *drainer) shows(k *viewed) {
	for _, node := range slices.Sorted(maps.Keys(d.pods)) {
		if k.kind == budgetGVK().Kind || k == d.pods[node] {
			d.wakeOwner(node)
		}
	}
}

// wakeOwner wakes whoever drains a Node.
func (d *drainer) wakeOwner(node string) {
	if owner, known := d.owners[node]; known {
		for name := range d.process.controllers {
			d.process.wake(name, owner, 0)
		}
	}
}
