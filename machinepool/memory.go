package machinepool

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// recollection is what a process remembers about one pool between passes. Losing it costs time and requests, never correctness. It belongs
// to the worker that reconciles the pool.
type recollection struct {
	// asked are objects whose deletion was requested, and drained are Nodes that were drained.
	asked, drained map[types.UID]struct{}
	// draining are the names of the Nodes that the Drainer drains.
	draining map[string]struct{}
	drainer  workload.Drainer
	// turns are those of the Nodes that are to be drained, some of which have lost theirs.
	turns map[types.UID]turn
	// refused is when the last refused write of a Node was sent.
	refused map[types.UID]time.Time
	// detaching are the names of the Nodes whose volumes are waited for, and since when.
	detaching map[string]time.Time
	volumes   workload.Volumes
	// confirmed are the Nodes whose instance has left, as the API server confirmed.
	confirmed map[types.UID]struct{}
	// gone are recorded Nodes that the API server confirmed as gone, and missedSince is since when others are missed.
	gone        map[contract.NodeRef]struct{}
	missedSince time.Time
	// made are the Machines that were made and that the cache has yet to show, by name, and when that was.
	made map[string]time.Time
	// unread is since when something has not been read that was read before, and nodesUnread since when Nodes are not; zero while they are.
	unread, nodesUnread time.Time
}

func newRecollection() *recollection {
	return &recollection{
		asked: map[types.UID]struct{}{}, drained: map[types.UID]struct{}{}, confirmed: map[types.UID]struct{}{}, draining: map[string]struct{}{},
		detaching: map[string]time.Time{}, turns: map[types.UID]turn{}, refused: map[types.UID]time.Time{},
	}
}

// drains records that a Drainer drains a Node.
func (r *recollection) drains(d workload.Drainer, node string) {
	r.drainer = d
	r.draining[node] = struct{}{}
}

// sees records since when Nodes cannot be read.
func (r *recollection) sees(nodes bool, now time.Time) {
	switch {
	case nodes:
		r.nodesUnread = time.Time{}
	case r.nodesUnread.IsZero():
		r.nodesUnread = now
	}
}

// misses records since when recorded Nodes are neither known nor gone.
func (r *recollection) misses(some bool, now time.Time) {
	switch {
	case !some:
		r.missedSince = time.Time{}
	case r.missedSince.IsZero():
		r.missedSince = now
	}
}

// keep removes what is remembered about objects that no longer exist.
func (r *recollection) keep(objects, retired map[types.UID]struct{}) {
	maps.DeleteFunc(r.refused, func(uid types.UID, _ time.Time) bool {
		_, seen := objects[uid]
		return !seen
	})
	for _, kept := range []struct{ remembered, seen map[types.UID]struct{} }{
		{r.asked, objects}, {r.drained, objects}, {r.confirmed, retired},
	} {
		maps.DeleteFunc(kept.remembered, func(uid types.UID, _ struct{}) bool {
			_, seen := kept.seen[uid]
			return !seen
		})
	}
}

// release stops the drains of all Nodes, and the waits for their volumes, except those to keep.
func (r *recollection) release(keep map[string]struct{}) {
	for node := range r.detaching {
		if _, wanted := keep[node]; !wanted {
			r.volumes.Release(node)
			delete(r.detaching, node)
		}
	}
	for node := range r.draining {
		if _, wanted := keep[node]; !wanted {
			r.drainer.Release(node)
			delete(r.draining, node)
		}
	}
}
