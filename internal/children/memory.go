package children

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// Memory is what a process remembers of the children of one owner between passes: keep it by the UID of the owner, for example in a
// engine.Memory. Losing it costs time and reads, never correctness. Only the worker that reconciles the owner uses it.
type Memory struct {
	// Mark is safety.Verdict.Mark of the last evaluation.
	Mark contract.Opt[int]

	// lag is for how long the cache has not shown all children.
	lag Lag
	// failed are the names of the children whose creation failed the last time, each with the UID of the child that was not stored as it was
	// created, if there is one: the others come first.
	failed map[string]types.UID
	// synced is what the children are in step with.
	synced map[types.UID]inStep
	// failure is why the last attempt to create has failed, empty when it has not.
	failure string
}

// inStep is a version of a child, and what of its owner it is in step with.
type inStep struct{ resourceVersion, with string }

// NewMemory returns what is remembered of an owner at first.
func NewMemory() *Memory {
	return &Memory{failed: map[string]types.UID{}, synced: map[types.UID]inStep{}}
}

// hasFailed reports whether the creation of a child failed the last time.
func (m *Memory) hasFailed(name string) bool {
	_, failed := m.failed[name]
	return failed
}
