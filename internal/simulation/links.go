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

// starting are the sources that the Trackers of one life of a process start, from goroutines that may outlive it: the World waits for those
// of the current life, and begins them.
type starting struct {
	sync.WaitGroup

	mu     sync.Mutex
	begins []func() error
}

// tracked are the Nodes of a connection for a Tracker, which starts their source from a goroutine: the World waits for that, and begins it.
type tracked struct {
	*cluster.NodeIndex
	source.SyncingSource // once there is one

	starting *starting
}

// Source implements workload.Nodes.
func (t tracked) Source(mapper cluster.NodeMapper) source.SyncingSource {
	t.SyncingSource = t.NodeIndex.Source(mapper)
	return t
}

// Start implements source.Source.
func (t tracked) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	defer t.starting.Done()
	t.starting.mu.Lock()
	defer t.starting.mu.Unlock()
	t.starting.begins = append(t.starting.begins, func() error { return t.SyncingSource.Start(ctx, q) })
	return nil
}

// WaitForSync implements source.SyncingSource. It ends the goroutine of a Tracker: a link wakes the objects of its cluster itself.
func (tracked) WaitForSync(context.Context) error { return errAway }

// link keeps the connection of a process to a workload cluster, as cluster.Clusters does: it connects, lists the Nodes, notices after a
// while that the API server does not answer or that the kubeconfig leads elsewhere, and connects again, with caches that have nothing yet.
// A process has none in a history with one workload cluster.
type link struct {
	process *process
	of      *workloadCluster
	session *session
	access  machine.Workload // without Nodes while there is no connection
	seen    time.Time        // when the last connection ended, zero before
	drainer *drainer         // nil without a connection, and in a history without Pods
	again   time.Time        // before which an attempt that has failed is not repeated
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
	p.links, p.reaches, p.starting = nil, nil, &starting{}
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
	p, now, before := l.process, l.process.clock().Now(), l.session
	access := machine.Workload{}
	if before.to != nil {
		before.ended, l.seen = true, now
	}
	l.session, l.drainer = &session{of: l.of, to: to}, nil
	clear(p.recorded) // events of another cluster are new ones
	k := newViewed("Node")
	k.session, k.unlisted = l.session, true
	p.view.kinds[l.kind().GroupKind()] = k
	if to != nil {
		connected := connection{process: p, session: l.session}
		c := connected.client(to.store)
		access.Nodes, access.Client, access.APIReader = tracked{NodeIndex: k.nodes, starting: p.starting}, c, c
		access.UID = types.UID("uid-of-" + to.name)
		if p.world.apps != nil {
			l.drainer, err = newDrainer(connected, to.store)
			access.Drainer = l.drainer
		}
	}
	l.access = access
	return err
}

// workload is what cluster.NodesOf returns for the cluster.
func (l *link) workload() (machine.Workload, error) {
	access := l.access
	switch {
	case access.Nodes != nil:
		return access, nil
	case l.seen.IsZero():
		return access, &cluster.NotConnectedError{Cluster: l.key(), Reason: cluster.ReasonConnecting}
	}
	return access, &cluster.NotConnectedError{Cluster: l.key(), Reason: cluster.ReasonUnreachable, Err: errAway, LastSeen: l.seen}
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
		return l.afterRequest(target, "get", "readyz", func() { w.fail("a connection is made", l.lead(target)) })
	case l.viewed().unlisted:
		return l.afterRequest(target, "list", "Node", func() { w.relist(l.process, l.kind()) })
	}
	return nil
}

// afterRequest returns what does something once a request has shown that an API server answers.
func (l *link) afterRequest(to *workloadCluster, verb, kind string, then func()) func() error {
	r := Request{Verb: verb, Kind: kind, Name: "of " + to.name, probe: true, session: &session{of: l.of, to: to}}
	before := l.session
	return func() error {
		err := l.process.world.request(l.process, r, func() error { return nil })
		if err == nil && before == l.session {
			then()
		}
		return err
	}
}

// links are those of all processes, and the kubeconfigs that lead where they should again, as an actor.
func links(ctx context.Context, w *World) (all []due) {
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

// goOn does what a link does next, unless its process has ended meanwhile, and wakes the reconcilers.
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
	for _, wake := range l.process.reaches {
		wake(l)
	}
}

// reach returns Ports.NodesOf and Ports.WorkloadEvents of a reconciler; nil where there is one cluster.
func (p *process) reach() (func(types.NamespacedName) (machine.Workload, error), func(cluster.Mapper) source.Source) {
	if len(p.links) == 0 {
		return nil, nil
	}
	// A pass may go on when its process has a next life, and must not reach that. followed are the Nodes to which the Tracker of the
	// reconciler will listen. It begins in a goroutine: before anything else happens, the World waits for it.
	links, starting, followed := p.links, p.starting, map[*link]cluster.Nodes{}
	nodesOf := func(key types.NamespacedName) (machine.Workload, error) {
		for _, l := range links {
			if l.key() != key {
				continue
			}
			access, err := l.workload()
			if access.Nodes != nil && followed[l] != access.Nodes {
				starting.Add(1)
			}
			followed[l] = access.Nodes
			return access, err
		}
		return machine.Workload{}, &cluster.NotConnectedError{Cluster: key, Reason: cluster.ReasonNoKubeconfig, Err: cluster.ErrNoKubeconfig}
	}
	return nodesOf, func(mapper cluster.Mapper) source.Source {
		return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			p.reaches = append(p.reaches, func(l *link) {
				requests := mapper(l.key())
				if len(requests) == 0 {
					delete(followed, l) // a Tracker without objects of a cluster does not listen any more
				}
				for _, request := range requests {
					q.Add(request)
				}
			})
			return nil
		})
	}
}
