package machineset

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// recollection is what a process remembers of one set between passes. Losing it costs time and reads, never correctness.
type recollection struct {
	// asked are the Machines whose deletion was requested and is not shown by the cache yet.
	asked map[types.UID]bool
	// shown are the Machines that the cache has to show until it shows their deletion. trusted: it shows all Machines of the set, the API
	// server has said so, and since then none has been missing. through: the Through of the ledger for which it was asked last.
	shown   map[types.UID]bool
	trusted bool
	through string
	// missing is since when Machines have been missing in the cache, and leftOut what a person was told about it, until the API server is
	// asked again.
	missing time.Time
	leftOut string
	askedAt time.Time
	// refused are the Machines whose adoption, release or deletion failed the last time, and failedSlots the slots whose creation did:
	// the others come first.
	refused     map[types.UID]bool
	failedSlots map[int64]bool
	// members are the Machines as they were read last, so that one that did not change is not read again.
	members map[types.UID]*known
	// statusAt is when the status was written last.
	statusAt time.Time
	// swept: the objects that were created for Machines which do not exist have been deleted.
	swept bool
	// failed is how many attempts to create have failed one after the other and made nothing, but for the first; the last one ended at
	// failedAt, for this generation of the set.
	failed           int
	failedAt         time.Time
	failedGeneration int64
	// left are the parts of slots for which no Machine was made, which a cache may have yet to show.
	left map[int64]leftParts
}

// newRecollection is what is remembered of a set at first.
func newRecollection() *recollection {
	return &recollection{
		asked: map[types.UID]bool{}, members: map[types.UID]*known{}, shown: map[types.UID]bool{}, refused: map[types.UID]bool{},
	}
}

// leftParts are the parts of one slot: objects of these kinds, under the name of its Machine.
type leftParts struct {
	name  string
	kinds []schema.GroupVersionKind
}

// remember keeps that a Machine was made, or which parts of a slot are there without one, those of earlier attempts too.
func (r *recollection) remember(c creation) {
	if c.uid != "" {
		r.shown[c.uid] = true
	}
	if delete(r.failedSlots, c.entry.Slot); c.err != nil {
		if r.failedSlots == nil {
			r.failedSlots = map[int64]bool{}
		}
		r.failedSlots[c.entry.Slot] = true
	}
	if c.err == nil && !c.burnt {
		delete(r.left, c.entry.Slot)
		return
	}
	kinds := slices.Clone(r.left[c.entry.Slot].kinds)
	for _, gvk := range c.parts {
		if !slices.Contains(kinds, gvk) {
			kinds = append(kinds, gvk)
		}
	}
	if len(kinds) == 0 {
		return
	}
	if r.left == nil {
		r.left = map[int64]leftParts{}
	}
	r.left[c.entry.Slot] = leftParts{c.entry.Name, kinds}
}

// maxPatience bounds how long a set waits before it tries again to create.
const maxPatience = time.Minute

// patience is how long a set waits after a number of attempts to create that have failed one after the other.
func patience(failed int) time.Duration {
	if failed <= 0 {
		return 0
	}
	return min(pass.ConflictRetry<<min(failed-1, 10), maxPatience)
}

// tried remembers the result of an attempt to create that has ended now: whether anything was created, and whether anything failed.
func (r *recollection) tried(made, failed bool, generation int64, now time.Time) {
	if made || !failed || generation != r.failedGeneration {
		r.failed = 0
	}
	if failed {
		r.failed, r.failedAt, r.failedGeneration = r.failed+1, now, generation
	}
}

// waits is for how long nothing is created after what has failed; a set that was changed does not wait. Every attempt writes the ledger,
// and that event would wake the set at once: without this it would never rest while creations are refused.
func (r *recollection) waits(generation int64, now time.Time) time.Duration {
	if r.failed == 0 || generation != r.failedGeneration || now.Before(r.failedAt) {
		return 0
	}
	return max(r.failedAt.Add(patience(r.failed)).Sub(now), 0)
}

// known is a Machine that was read, and what it was found to be in step with.
type known struct {
	resourceVersion string
	state           *contract.MachineState
	inStep          step
}

// step is what the fields that change in place depend on in a set. The zero step is none.
type step struct {
	known      bool
	generation int64
	deployment string
}

// keep forgets Machines that are not among those observed, and deletions that can be seen. A Machine that is missing before its deletion
// was seen or asked for takes the trust in the cache away.
func (r *recollection) keep(observed []*member) {
	there := make(map[types.UID]bool, len(observed))
	for _, m := range observed {
		there[m.state.UID] = m.state.Deleting.IsZero()
	}
	for uid := range r.shown {
		if _, found := there[uid]; !found && !r.asked[uid] {
			r.trusted = false
		}
	}
	for uid := range r.members {
		if _, found := there[uid]; !found {
			delete(r.members, uid)
		}
	}
	for uid := range r.asked {
		if !there[uid] {
			delete(r.asked, uid)
		}
	}
	maps.DeleteFunc(there, func(_ types.UID, alive bool) bool { return !alive })
	r.shown = there
}

// attempted remembers whether a request for a Machine has failed.
func (r *recollection) attempted(uid types.UID, err error) {
	if delete(r.refused, uid); err != nil {
		r.refused[uid] = true
	}
}

// shows remembers that the API server has named no Machine that the cache did not show, for a ledger.
func (r *recollection) shows(through string) {
	r.trusted, r.through, r.missing = true, through, time.Time{}
}

// caughtUp remembers that the cache has seen what was created.
func (r *recollection) caughtUp() {
	if r.trusted {
		r.missing = time.Time{}
	}
}

// missingFor returns for how long Machines have been missing in the cache, and remembers since when.
func (r *recollection) missingFor(now time.Time) time.Duration {
	if r.missing.IsZero() || now.Before(r.missing) {
		r.missing = now
	}
	return now.Sub(r.missing)
}
