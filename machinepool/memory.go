package machinepool

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/internal/engine"
)

// recollection is what a process remembers about one pool between passes. Losing it costs time and requests, never correctness. It belongs
// to the worker that reconciles the pool.
type recollection struct {
	// requested are the deletions of Machines and of referenced objects that caches do not show yet.
	requested engine.Deletions
	// draining are the names of the Nodes that workload drains, each with since when its volumes are waited for; zero before.
	draining map[string]time.Time
	workload Workload
	// unread is since when something has not been read that was read before, and nodesUnread since when not all Nodes are known; zero
	// otherwise.
	unread, nodesUnread time.Time
}

func newRecollection() *recollection {
	return &recollection{draining: map[string]time.Time{}}
}

func (p *Scope) mem() *recollection { return p.env.memory.Of(p.State.Key, p.State.UID) }

// detaches records that volumes of a Node are waited for, and returns since when.
func (r *recollection) detaches(node string, now time.Time) time.Time {
	if r.draining[node].IsZero() {
		r.draining[node] = now
	}
	return r.draining[node]
}

// release stops the drains of all Nodes, and the waits for their volumes, except those to keep.
func (r *recollection) release(keep sets.Set[string]) {
	for node := range r.draining {
		if !keep.Has(node) {
			r.workload.Release(node)
			delete(r.draining, node)
		}
	}
}

// lasts records since when something is so; zero while it is not.
func lasts(since *time.Time, so bool, now time.Time) {
	switch {
	case !so:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// forgetRequests limits the memory of a pool that lives to existing Machines. Such a pool has requested no deletion of what it refers to:
// one that was restored from a backup has to request it again.
func (p *Scope) forgetRequests() {
	if p.Deleting() || (p.env.kinds.makesMachines() && p.machines == nil) {
		return
	}
	p.mem().requested.Keep(func(uid types.UID) bool {
		return p.machines != nil && slices.ContainsFunc(p.machines.own, func(m machine) bool { return m.UID == uid })
	})
}
