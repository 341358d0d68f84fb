package children

import (
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/internal/engine"
)

// Memory is what a process remembers of the children of one owner between passes: keep it by the UID of the owner, for example in a
// engine.Memory. Losing it costs time and reads, never correctness. Only the worker that reconciles the owner uses it.
type Memory[CS any] struct {
	// requested are the deletions of children that the cache does not show yet.
	requested engine.Deletions
	// lag is for how long the cache has not shown all children.
	lag Lag
	// refused are the children whose adoption, release or deletion failed the last time, and failedSlots the slots whose creation did:
	// the others come first.
	refused     map[types.UID]bool
	failedSlots map[int64]bool
	// unkept are the children that were not stored as they were created, by their slots.
	unkept map[int64]types.UID
	// read are the children as they were read last, so that one that did not change is not read again.
	read map[types.UID]*known[CS]
	// failed is how many attempts to create have failed one after the other and made nothing, but for the first; the last one ended at
	// failedAt, for this generation of the owner.
	failed           int
	failedAt         time.Time
	failedGeneration int64
	// failure is why the last attempt has failed, empty when it has not.
	failure string
}

// known is a child that was read, and what it was found to be in step with.
type known[CS any] struct {
	resourceVersion string
	state           *CS
	synced          bool
	inStep          Step
}

// NewMemory returns what is remembered of an owner at first.
func NewMemory[CS any]() *Memory[CS] {
	return &Memory[CS]{
		refused: map[types.UID]bool{}, failedSlots: map[int64]bool{}, unkept: map[int64]types.UID{}, read: map[types.UID]*known[CS]{},
	}
}

// created remembers whether the creation of a slot has failed.
func (m *Memory[CS]) created(c Creation) {
	if delete(m.failedSlots, c.Entry.Slot); c.Err != nil {
		m.failedSlots[c.Entry.Slot] = true
	}
	if delete(m.unkept, c.Entry.Slot); c.Err != nil && c.uid != "" {
		m.unkept[c.Entry.Slot] = c.uid
	}
}

// maxPatience bounds how long an owner waits before it tries again to create.
const maxPatience = time.Minute

// patience is how long an owner waits after a number of attempts to create that have failed one after the other.
func patience(failed int) time.Duration {
	if failed <= 0 {
		return 0
	}
	return min(engine.ConflictRetry<<min(failed-1, 10), maxPatience)
}

// refuse remembers why an attempt to create has failed, if it has.
func (m *Memory[CS]) refuse(failed []error) {
	if m.failure = ""; len(failed) > 0 && !engine.IsStale(failed[0]) {
		m.failure = engine.Bounded(strings.ReplaceAll(failed[0].Error(), "\n", "; "), engine.MaxNoteLength)
	}
}

// tried remembers the result of an attempt to create that has ended now: whether anything was created, and whether anything failed.
func (m *Memory[CS]) tried(made, failed bool, generation int64, now time.Time) {
	if made || !failed || generation != m.failedGeneration {
		m.failed = 0
	}
	if failed {
		m.failed, m.failedAt, m.failedGeneration = m.failed+1, now, generation
	}
}

// waits is for how long nothing is created after what has failed; an owner that was changed does not wait. Every attempt writes the ledger,
// and that event would wake the owner at once: without this it would never rest while creations are refused.
func (m *Memory[CS]) waits(generation int64, now time.Time) time.Duration {
	if m.failed == 0 || generation != m.failedGeneration || now.Before(m.failedAt) {
		return 0
	}
	return max(m.failedAt.Add(patience(m.failed)).Sub(now), 0)
}

// keep forgets children that are not among those observed, and deletions that can be seen.
func (m *Memory[CS]) keep(observed []Child[CS]) {
	there := make(map[types.UID]bool, len(observed))
	for _, one := range observed {
		there[one.UID] = one.Deleting.IsZero()
		m.requested.Observe(one.UID, one.ResourceVersion, !one.Deleting.IsZero())
	}
	m.KeepRead(there)
	m.requested.Keep(func(uid types.UID) bool { return there[uid] })
}

// KeepRead forgets what was read of children that are not keys of a map.
func (m *Memory[CS]) KeepRead(there map[types.UID]bool) {
	maps.DeleteFunc(m.read, func(uid types.UID, _ *known[CS]) bool {
		_, found := there[uid]
		return !found
	})
}

// attempted remembers whether a request for a child has failed.
func (m *Memory[CS]) attempted(uid types.UID, err error) {
	if delete(m.refused, uid); err != nil {
		m.refused[uid] = true
	}
}
