package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// errCrashed ends every request of a process that has crashed.
var errCrashed = errors.New("the process has crashed")

// process is one manager: its caches, its reconcilers with their memory, and what it is about to do. A crash loses all of it.
type process struct {
	world       *World
	name        string
	number      int // of the processes
	skew        time.Duration
	view        *view
	controllers map[string]startable
	queue       []queued
	failed      map[string]int
	crashed     bool
	busy        bool
	life        int // counts the starts
	collecting  *collecting
	began       int      // how many events there were when its pass began
	controller  string   // of its pass, or of the last one
	stop        func()   // ends what the last start began
	drainer     *drainer // nil in a history without Pods, or with links
	metrics     *prometheus.Registry
	recorded    map[string]bool      // the events that it has recorded since it found what others have written
	over        map[string]bool      // those of them that have an end: a check has refused to remediate, and remediates again
	refused     map[types.UID]string // why its pass could not create Machines, by set
	links       []*link
	reaches     []func(*link) // each wakes all objects of a cluster in one reconciler
	starting    *starting
}

// queued is a reconciliation that is due.
type queued struct {
	controller string
	key        types.NamespacedName
	due        time.Time
}

// start gives a process caches of what the API server has now, and reconcilers that remember nothing.
func (p *process) start(ctx context.Context) error {
	p.stop()
	ctx, p.stop = context.WithCancel(ctx)
	p.view, p.queue, p.failed, p.crashed = newView(p.world.watched), nil, map[string]int{}, false
	p.controllers, p.collecting, p.recorded, p.over = map[string]startable{}, nil, map[string]bool{}, map[string]bool{}
	p.beginLinks()
	p.life++
	p.count()
	p.metrics = prometheus.NewRegistry()
	for _, gvk := range p.world.watched {
		k := p.view.kinds[gvk.GroupKind()]
		for _, obj := range p.world.shown(p, gvk) {
			k.pending = append(k.pending, change{object: obj})
			k.deliver()
		}
		k.version = p.world.version
	}
	p.addCRDs(fake.InfraMachinePoolGVK(contract.V1Beta2), partGVK(), templateOf(partGVK()), configGVK(), templateOf(configGVK()))
	m := &manager{process: p, client: connection{process: p}.client(p.world.store)}
	workload, err := p.workload()
	if m.workload = workload; p.world.health != nil {
		return errors.Join(err, m.setUpHealth(ctx), m.listen(ctx))
	}
	return errors.Join(err, m.setUp(ctx, nil), m.listen(ctx))
}

// nodes are those of a cluster in the cache of the process.
func (p *process) nodes(of *workloadCluster) *cluster.NodeIndex {
	return p.view.kinds[schema.GroupKind{Group: of.space, Kind: "Node"}].nodes
}

// nodesFor are those of the cluster of a Machine.
func (p *process) nodesFor(m *unstructured.Unstructured) *cluster.NodeIndex {
	return p.nodes(p.world.clusterOf(m.GetNamespace()))
}

// count keeps the values of the metrics before they are lost.
func (p *process) count() {
	if p.metrics != nil {
		p.world.seen.counted(p.metrics)
	}
}

// wake makes a reconciliation due, at once or later. One that is due earlier stays.
func (p *process) wake(controller string, key types.NamespacedName, after time.Duration) {
	due := p.world.Now().Add(after)
	for i := range p.queue {
		if q := &p.queue[i]; q.controller == controller && q.key == key {
			if due.Before(q.due) {
				q.due = due
			}
			return
		}
	}
	p.queue = append(p.queue, queued{controller, key, due})
}

// waiting returns the queue, in an order that depends on nothing else.
func (p *process) waiting() []queued {
	return slices.SortedFunc(slices.Values(p.queue), func(a, b queued) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.controller, b.controller), cmp.Compare(a.key.String(), b.key.String()))
	})
}

// run reconciles one object, and puts it back into the queue as controller-runtime does.
func (p *process) run(ctx context.Context, q queued) {
	p.queue = slices.DeleteFunc(p.queue, func(other queued) bool { return other == q })
	p.busy, p.began, p.controller, p.refused = true, len(p.world.history.Events), q.controller, map[types.UID]string{}
	p.world.health.begins(p, q)
	result, err := p.controllers[q.controller].Reconcile(ctx, reconcile.Request{NamespacedName: q.key})
	p.busy = false
	if p.crashed {
		return
	}
	p.introduce()
	id := q.controller + " " + q.key.String()
	if err == nil {
		delete(p.failed, id)
		if result.RequeueAfter > 0 {
			p.wake(q.controller, q.key, result.RequeueAfter)
		}
		return
	}
	p.failed[id]++
	p.wake(q.controller, q.key, min(time.Second<<min(p.failed[id], 10), maxBackoff))
	p.world.note(p.name, q.controller+" "+q.key.Name, "error: "+err.Error())
}

const (
	// maxBackoff bounds the pause after errors, so that a history with faults ends in bounded time.
	maxBackoff = time.Minute
	// pollEvery is how often Machines look at an instance that does not run yet.
	pollEvery = 10 * time.Second
)

// watches are all that the process watches, in an order that depends on nothing else.
func (p *process) watches() (all []*viewed) {
	for _, gvk := range p.world.watched {
		all = append(all, p.view.kinds[gvk.GroupKind()])
	}
	for _, d := range p.drainers() {
		all = append(all, d.followed()...)
	}
	return all
}

// deliver gives the process the next event of a watch, unless that was given between two requests of something else.
func (p *process) deliver(k *viewed) {
	if len(k.pending) == 0 {
		return
	}
	e := k.deliver()
	p.finds(e.object)
	p.world.note(p.name, "sees "+describe(e), "")
	for _, d := range p.drainers() {
		d.shows(k)
	}
}
