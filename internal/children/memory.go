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
type Memory struct {
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
	// synced is what the children are in step with.
	synced map[types.UID]inStep
	// failedAt is when the last attempt to create has failed, and failure why; zero and empty when it has not.
	failedAt time.Time
	failure  string
}

// inStep is a version of a child, and what of its owner it is in step with.
type inStep struct{ resourceVersion, with string }

// NewMemory returns what is remembered of an owner at first.
func NewMemory() *Memory {
	return &Memory{
		refused: map[types.UID]bool{}, failedSlots: map[int64]bool{}, unkept: map[int64]types.UID{}, synced: map[types.UID]inStep{},
	}
}

// created remembers whether the creation of a slot has failed.
func (m *Memory) created(c Creation) {
	if delete(m.failedSlots, c.Entry.Slot); c.Err != nil {
		m.failedSlots[c.Entry.Slot] = true
	}
	if delete(m.unkept, c.Entry.Slot); c.Err != nil && c.uid != "" {
		m.unkept[c.Entry.Slot] = c.uid
	}
}

// refuse remembers when and why an attempt to create has failed, if it has.
func (m *Memory) refuse(failed []error, now time.Time) {
	if m.failedAt = (time.Time{}); len(failed) > 0 {
		m.failedAt = now
	}
	if m.failure = ""; len(failed) > 0 && !engine.IsStale(failed[0]) {
		m.failure = engine.Bounded(strings.ReplaceAll(failed[0].Error(), "\n", "; "), engine.MaxNoteLength)
	}
}

// keep forgets children that are not among those observed, and deletions that can be seen.
func keep[CS any](m *Memory, observed []Child[CS]) {
	there := make(map[types.UID]bool, len(observed))
	for _, one := range observed {
		there[one.UID] = one.Deleting.IsZero()
		m.requested.Observe(one.UID, one.ResourceVersion, !one.Deleting.IsZero())
	}
	maps.DeleteFunc(m.synced, func(uid types.UID, _ inStep) bool {
		_, found := there[uid]
		return !found
	})
	m.requested.Keep(func(uid types.UID) bool { return there[uid] })
}

// attempted remembers whether a request for a child has failed.
func (m *Memory) attempted(uid types.UID, err error) {
	if delete(m.refused, uid); err != nil {
		m.refused[uid] = true
	}
}
