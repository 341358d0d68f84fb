package children

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Memory is what a process remembers of the children of one owner between passes: keep it by the UID of the owner, for example in a
// engine.Memory. Losing it costs time and reads, never correctness. Only the worker that reconciles the owner uses it.
type Memory struct {
	// Mark is safety.Verdict.Mark of the last evaluation.
	Mark contract.Opt[int]

	// lag is for how long the cache has not shown all children.
	lag Lag
	// refused are the children whose adoption, release or deletion failed the last time, and failedSlots the slots whose creation did, with
	// the child that was not stored as it was created, if there is one: the others come first.
	refused     map[types.UID]bool
	failedSlots map[int64]types.UID
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
		refused: map[types.UID]bool{}, failedSlots: map[int64]types.UID{}, synced: map[types.UID]inStep{},
	}
}

// created remembers whether the creation of a slot has failed, and of which child, if it exists.
func (m *Memory) created(slot int64, uid types.UID, err error) {
	if delete(m.failedSlots, slot); err != nil {
		m.failedSlots[slot] = uid
	}
}

// hasFailed reports whether the creation of a slot failed the last time.
func (m *Memory) hasFailed(e scale.Entry) bool {
	_, failed := m.failedSlots[e.Slot]
	return failed
}

// attempted remembers whether a request for a child has failed.
func (m *Memory) attempted(uid types.UID, err error) {
	if delete(m.refused, uid); err != nil {
		m.refused[uid] = true
	}
}
