package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
)

// errCrashed ends every request of a process that has crashed.
var errCrashed = errors.New("the process has crashed")

// process is one manager: its caches, its reconcilers with their memory, and what it is about to do. A crash loses all of it.
type process struct {
	world   *World
	name    string
	number  int // of the processes
	skew    time.Duration
	view    *view
	all     []Reconciler
	queue   []queued
	failed  map[string]int
	crashed bool
	busy    bool
	life    int      // counts the starts
	began   int      // how many events there were when its pass began
	kind    string   // of the object that it reconciles, or has reconciled last
	adding  int      // the reconciler whose sources are being started
	stop    func()   // ends what the last start began
	drainer *drainer // nil in a history without Pods, or with links
	metrics *prometheus.Registry
	links   []*link
	reaches []*reach
	// starting are the sources that Trackers start.
	starting *sync.WaitGroup
}

// queued is a reconciliation that is due.
type queued struct {
	reconciler int
	key        types.NamespacedName
	due        time.Time
}

// start gives a process caches of what the API server has now, and reconcilers that remember nothing.
func (p *process) start(ctx context.Context) error {
	p.stop()
	ctx, p.stop = context.WithCancel(ctx)
	p.view, p.queue, p.failed, p.crashed = newView(p.world.served), nil, map[string]int{}, false
	p.beginLinks()
	p.life++
	p.count()
	p.metrics = prometheus.NewRegistry()
	for _, gvk := range p.world.served {
		k := p.view.kinds[gvk.GroupKind()]
		for _, obj := range p.world.shown(p, gvk) {
			k.pending = append(k.pending, change{object: obj})
			k.deliver()
		}
		k.version = p.world.version
	}
	p.addCRDs(fake.InfraMachinePoolGVK(contract.V1Beta2), partGVK(), partTemplateGVK(), configGVK(), configTemplateGVK())
	if err := p.setUp(ctx); err != nil {
		return err
	}
	p.wakeUnsourced(nil)
	return p.listen(ctx)
}

// count keeps what the metrics say before they go.
func (p *process) count() {
	if p.metrics != nil {
		p.world.seen.counted(p.metrics)
	}
}

// setUp makes the reconcilers, as an operator's main function does.
func (p *process) setUp(ctx context.Context) error {
	workload, err := p.workload()
	if err != nil {
		return err
	}
	client := &connection{WithWatch: p.world.store.Client(), process: p}
	m := Manager{
		Ports: engine.Ports{Client: client, Cache: p.view, APIReader: client}, Clock: skewed{p}, Workload: workload,
		Registry: p.metrics, Calls: p.cloudCalls(), Controller: p.controllerOptions(),
		process: p,
	}
	if p.world.health != nil {
		p.all, err = setUpHealth(ctx, m)
	} else {
		p.all, err = setUpLibrary(m)
	}
	return err
}

// wake makes a reconciliation due, at once or later. One that is due earlier stays.
func (p *process) wake(reconciler int, key types.NamespacedName, after time.Duration) {
	due := p.world.Now().Add(after)
	for i := range p.queue {
		if q := &p.queue[i]; q.reconciler == reconciler && q.key == key {
			if due.Before(q.due) {
				q.due = due
			}
			return
		}
	}
	p.queue = append(p.queue, queued{reconciler, key, due})
}

// reconciled are the objects of a reconciler that the process knows.
func (p *process) reconciled(reconciler int) []*unstructured.Unstructured {
	for _, gvk := range p.world.served {
		if gvk.Kind == p.all[reconciler].Kind {
			return p.view.kinds[gvk.GroupKind()].sorted()
		}
	}
	return nil
}

// due returns what the process can do now, in an order that depends on nothing else.
func (p *process) due() []queued {
	now := p.world.Now()
	var ready []queued
	for _, q := range p.queue {
		if !q.due.After(now) {
			ready = append(ready, q)
		}
	}
	slices.SortFunc(ready, func(a, b queued) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.reconciler, b.reconciler), cmp.Compare(a.key.String(), b.key.String()))
	})
	return ready
}

// run reconciles one object, and puts it back into the queue as controller-runtime does.
func (p *process) run(ctx context.Context, q queued) {
	p.queue = slices.DeleteFunc(p.queue, func(other queued) bool { return other == q })
	p.busy, p.began, p.kind = true, len(p.world.history.Events), p.all[q.reconciler].Kind
	result, err := p.all[q.reconciler].Reconcile(ctx, reconcile.Request{NamespacedName: q.key})
	p.busy = false
	if p.crashed {
		return
	}
	p.introduce()
	id := fmt.Sprint(q.reconciler, " ", q.key)
	switch {
	case err != nil:
		p.failed[id]++
		p.wake(q.reconciler, q.key, min(time.Second<<min(p.failed[id], 10), maxBackoff))
		p.world.note(p.name, p.all[q.reconciler].Kind+" "+q.key.Name, "error: "+err.Error())
	case result.RequeueAfter > 0:
		delete(p.failed, id)
		p.wake(q.reconciler, q.key, result.RequeueAfter)
	default:
		delete(p.failed, id)
	}
}

const (
	// maxBackoff bounds the pause after errors, so that a history with faults ends in bounded time.
	maxBackoff = time.Minute
	// pollEvery is how often Machines look at an instance that does not run yet.
	pollEvery = 10 * time.Second
)

// deliver gives the process the next event of a kind, which wakes what its sources say.
func (p *process) deliver(kind *viewed) {
	e := kind.deliver()
	p.world.events.shows(p, e.object)
	if p.world.note(p.name, "sees "+describe(e), ""); !e.bookmark {
		p.wakeUnsourced(e.object)
	}
}
