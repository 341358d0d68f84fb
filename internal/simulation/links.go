package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// tracked are the Nodes of a connection for a Tracker, which starts their source from a goroutine: the World waits for that, and starts it.
type tracked struct {
	*cluster.NodeIndex

	process *process
}

// Source implements workload.Nodes.
func (t tracked) Source(mapper cluster.NodeMapper) source.SyncingSource {
	return trackedSource{t.NodeIndex.Source(mapper), t.process}
}

type trackedSource struct {
	source.SyncingSource

	process *process
}

// Start implements source.Source.
func (s trackedSource) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	s.process.starts = append(s.process.starts, func() { s.process.world.fail("a source starts", s.SyncingSource.Start(ctx, q)) })
	s.process.starting.Done()
	return nil
}

// WaitForSync implements source.SyncingSource. It ends the goroutine of a Tracker: a link wakes the objects of its cluster itself.
func (trackedSource) WaitForSync(context.Context) error { return errAway }

// link keeps the connection of a process to a workload cluster, as cluster.Clusters does: it connects, lists the Nodes, notices after a
// while that the API server does not answer or that the kubeconfig leads elsewhere, and connects again, with caches that have nothing yet.
// A process has none in a history with one workload cluster.
type link struct {
	process     *process
	of          *workloadCluster
	session     *session
	client      *connection
	drainer     *drainer // nil without a connection, and in a history without Pods
	since, seen time.Time
	again       time.Time // before which an attempt that has failed is not repeated
}

// session is one connection of a link, or the time without any.
type session struct {
	of, to *workloadCluster // to is nil without a connection
	ended  bool
}

// isAway reports whether requests of a session get no answer; those without one do.
func (s *session) isAway(w *World) bool {
	return s != nil && (s.ended || s.to == nil || s.to.isAway(w))
}

// shows reports whether the caches of a session have what is in a cluster; there are none where there is one cluster.
func (s *session) shows(c *workloadCluster) bool { return s == nil || s.to == c }

// beginLinks gives a process that starts its links, which are not connected yet.
func (p *process) beginLinks() {
	p.links, p.reaches, p.starting = nil, nil, &sync.WaitGroup{}
	if p.world.isSplit() {
		for _, c := range p.world.clusters[:2] {
			l := &link{process: p, of: c, session: &session{}}
			p.links = append(p.links, l)
			p.world.fail("a connection is made", l.lead(nil))
		}
	}
}

func (l *link) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: l.of.space, Version: "v1", Kind: "Node"}
}

func (l *link) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.of.namespace, Name: l.of.name}
}

func (l *link) viewed() *viewed { return l.process.view.kinds[l.kind().GroupKind()] }

// lead begins a connection to a cluster, and ends the one before; to nil is none.
func (l *link) lead(to *workloadCluster) (err error) {
	p, now := l.process, l.process.clock().Now()
	if (l.session.to == nil) != (to == nil) || l.since.IsZero() {
		l.since = now
	}
	if l.session.to != nil {
		l.session.ended, l.seen = true, now
	}
	l.session, l.client, l.drainer = &session{of: l.of, to: to}, nil, nil
	k := newViewed("Node")
	k.session, k.unlisted = l.session, true
	p.view.kinds[l.kind().GroupKind()] = k
	if to == nil {
		return nil
	}
	l.client = &connection{WithWatch: to.store.Client(), process: p, session: l.session}
	if p.world.apps != nil {
		l.drainer, err = newDrainer(l.client)
	}
	return err
}

// workload is what cluster.NodesOf returns for the cluster.
func (l *link) workload() (machine.Workload, error) {
	if l.session.to == nil {
		down := &cluster.NotConnectedError{Cluster: l.key(), Reason: cluster.ReasonConnecting}
		if !l.seen.IsZero() {
			down = &cluster.NotConnectedError{Cluster: l.key(), Reason: cluster.ReasonUnreachable, Err: errAway, LastSeen: l.seen}
		}
		return machine.Workload{LastSeen: l.seen, Since: l.since}, down
	}
	access := machine.Workload{
		Nodes: tracked{l.process.nodes(l.of), l.process}, Client: l.client, APIReader: l.client, LastSeen: l.process.clock().Now(), Since: l.since,
	}
	if l.drainer != nil {
		access.Drainer = l.drainer
	}
	return access, nil
}

var errAway = errors.New("simulated: the API server does not answer")

// next returns what a link does next; nil for nothing.
func (l *link) next() func() error {
	w, target := l.process.world, l.of.target()
	switch {
	case w.Now().Before(l.again):
		return nil
	case l.session.to != nil && l.session.isAway(w):
		return func() error { return l.lead(nil) }
	case target.isAway(w):
		return nil
	case l.session.to != target:
		return l.connect
	case l.viewed().unlisted:
		return l.list
	}
	return nil
}

// asks sends a request that finds out whether the API server answers.
func (l *link) asks(to *workloadCluster, verb, kind string) error {
	r := Request{Verb: verb, Kind: kind, Name: "of " + to.name, probe: true, session: &session{of: l.of, to: to}}
	return l.process.world.request(l.process, r, func() error { return nil })
}

func (l *link) connect() error {
	to := l.of.target()
	if err := l.asks(to, "get", "readyz"); err != nil {
		return err
	}
	return l.lead(to)
}

// list fills the caches of a connection.
func (l *link) list() error {
	s := l.session
	err := l.asks(s.to, "list", "Node")
	if err == nil && s == l.session {
		l.process.world.relist(l.process, l.kind())
		l.viewed().unlisted = false
	}
	return err
}

// links are those of all processes, and the kubeconfigs that lead where they should again, as an actor.
func links(ctx context.Context, w *World) []due {
	var all []due
	if c := w.clusters[1]; c.exchanged != nil && (w.calm || !w.Now().Before(c.until)) {
		all = append(all, due{do: func() { w.kubeconfigReturns(ctx, c) }})
	}
	for _, p := range w.processes {
		for _, l := range p.links {
			if l.next() != nil {
				all = append(all, due{do: func() { l.goOn(ctx) }})
			}
		}
	}
	return all
}

// goOn does what a link does next, unless its process has ended meanwhile, and tells the reconcilers.
func (l *link) goOn(ctx context.Context) {
	w, do := l.process.world, l.next()
	if do == nil || !slices.Contains(l.process.links, l) {
		return
	}
	if err := do(); err != nil {
		l.again = w.Now().Add(5 * time.Second)
		w.restart(ctx, l.process)
		return
	}
	listed := !l.viewed().unlisted
	w.note(l.process.name, fmt.Sprintf("is connected to %s: %t, its Nodes are listed: %t", l.of.name, l.session.to != nil, listed), "")
	l.process.starting.Wait()
	for _, r := range l.process.reaches {
		r.tell(l)
	}
}

// reach is how one reconciler of a process reaches the workload clusters.
type reach struct {
	process *process
	mapper  cluster.Mapper
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	// followed are the caches to which its Tracker listens.
	followed map[*link]*viewed
}

// reach returns Ports.NodesOf and Ports.WorkloadEvents of a reconciler; nil where there is one cluster.
func (p *process) reach() (func(types.NamespacedName) (machine.Workload, error), func(cluster.Mapper) source.Source) {
	if len(p.links) == 0 {
		return nil, nil
	}
	r := &reach{process: p, followed: map[*link]*viewed{}}
	p.reaches = append(p.reaches, r)
	return r.nodesOf, r.events
}

// nodesOf notes when the Tracker will begin to listen, which it does in a goroutine: before anything else happens, the World waits for it.
func (r *reach) nodesOf(key types.NamespacedName) (machine.Workload, error) {
	for _, l := range r.process.links {
		if l.key() != key {
			continue
		}
		access, err := l.workload()
		if err != nil {
			delete(r.followed, l)
		} else if r.followed[l] != l.viewed() {
			r.process.starting.Add(1)
			r.followed[l] = l.viewed()
		}
		return access, err
	}
	return machine.Workload{}, &cluster.NotConnectedError{Cluster: key, Reason: cluster.ReasonNoKubeconfig, Err: cluster.ErrNoKubeconfig}
}

func (r *reach) events(mapper cluster.Mapper) source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.mapper, r.queue = mapper, q
		return nil
	})
}

// tell wakes all objects of a cluster; a Tracker without any does not listen any more.
func (r *reach) tell(l *link) {
	requests := r.mapper(l.key())
	if len(requests) == 0 {
		delete(r.followed, l)
	}
	for _, request := range requests {
		r.queue.Add(request)
	}
}
