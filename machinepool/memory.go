package machinepool

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// recollection is what a process remembers about one pool between passes. Losing it costs time and requests, never correctness. It belongs
// to the worker that reconciles the pool.
type recollection struct {
	// requested are the deletions that caches do not show yet, and drained are Nodes that were drained.
	requested engine.Deletions
	drained   sets.Set[types.UID]
	// draining are the names of the Nodes that the Drainer drains.
	draining sets.Set[string]
	drainer  cluster.Drainer
	// turns are those of the Nodes that are to be drained, some of which have lost theirs.
	turns map[types.UID]turn
	// refused is when the last refused write of a Node was sent.
	refused map[types.UID]time.Time
	// detaching are the names of the Nodes whose volumes are waited for, and since when.
	detaching map[string]time.Time
	volumes   cluster.Volumes
	// confirmed are the Nodes whose instance has left, as the API server confirmed.
	confirmed sets.Set[types.UID]
	// gone are recorded Nodes that the API server confirmed as gone, and missedSince is since when others are missed.
	gone        sets.Set[contract.NodeRef]
	missedSince time.Time
	// made are the Machines that were made and that the cache has yet to show, by name, and when that was.
	made map[string]time.Time
	// unread is since when something has not been read that was read before, and nodesUnread since when Nodes are not; zero while they are.
	unread, nodesUnread time.Time
}

func newRecollection() *recollection {
	return &recollection{
		drained: sets.New[types.UID](), confirmed: sets.New[types.UID](), draining: sets.New[string](),
		detaching: map[string]time.Time{}, turns: map[types.UID]turn{}, refused: map[types.UID]time.Time{},
	}
}

func (p *Scope) mem() *recollection { return p.env.memory.Of(p.State.Key, p.State.UID) }

// drains records that a Drainer drains a Node.
func (r *recollection) drains(d cluster.Drainer, node string) {
	r.drainer = d
	r.draining.Insert(node)
}

// detaches records that volumes of a Node are waited for, and returns since when.
func (r *recollection) detaches(v cluster.Volumes, node string, now time.Time) time.Time {
	r.volumes = v
	if _, known := r.detaching[node]; !known {
		r.detaching[node] = now
	}
	return r.detaching[node]
}

// release stops the drains of all Nodes, and the waits for their volumes, except those to keep.
func (r *recollection) release(keep sets.Set[string]) {
	for node := range r.detaching {
		if !keep.Has(node) {
			r.volumes.Release(node)
			delete(r.detaching, node)
		}
	}
	for node := range r.draining {
		if !keep.Has(node) {
			r.drainer.Release(node)
			delete(r.draining, node)
		}
	}
}

// sees records since when Nodes cannot be read.
func (r *recollection) sees(nodes bool, now time.Time) { lasts(&r.nodesUnread, !nodes, now) }

// misses records since when recorded Nodes are neither known nor gone.
func (r *recollection) misses(some bool, now time.Time) { lasts(&r.missedSince, some, now) }

// lasts records since when something is so; zero while it is not.
func lasts(since *time.Time, so bool, now time.Time) {
	switch {
	case !so:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// forgetGone limits the memory to existing objects: Nodes and Machines come and go as long as a pool exists. A pool that lives has
// requested no deletion of what it refers to: one that was restored from a backup has to request it again.
func (p *Scope) forgetGone() {
	mem := p.mem()
	if len(mem.requested)+len(mem.drained)+len(mem.confirmed)+len(mem.refused) == 0 || (p.env.kinds.makesMachines() && p.machines == nil) {
		return
	}
	for _, node := range p.match.all() {
		mem.requested.Observe(node.UID, node.ResourceVersion, node.DeletionTimestamp != nil)
	}
	retired := uidsOf(p.match.Retired)
	objects := uidsOf(p.match.Nodes).Union(retired)
	for _, e := range []external.Object{p.bootstrap, p.infrastructure} {
		if e.Object != nil && p.Deleting() {
			objects.Insert(e.Object.GetUID())
		}
	}
	if p.machines != nil {
		objects = objects.Union(sets.KeySet(p.machines.objects))
	}
	mem.keep(objects, retired)
}

// keep removes what is remembered about objects that no longer exist.
func (r *recollection) keep(objects, retired sets.Set[types.UID]) {
	r.requested.Keep(objects.Has)
	r.drained, r.confirmed = r.drained.Intersection(objects), r.confirmed.Intersection(retired)
	maps.DeleteFunc(r.refused, func(uid types.UID, _ time.Time) bool { return !objects.Has(uid) })
}

func uidsOf(nodes []*corev1.Node) sets.Set[types.UID] {
	uids := make(sets.Set[types.UID], len(nodes))
	for _, node := range nodes {
		uids.Insert(node.UID)
	}
	return uids
}
