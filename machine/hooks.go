package machine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// hooksOf returns the annotations with a prefix, sorted.
func hooksOf(annotations map[string]string, prefix string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(annotations)), func(key string) bool { return !strings.HasPrefix(key, prefix) })
}

// preDrainHooksStage waits for pre-drain hooks. When the Node is neither drained nor deleted, there is no drain to wait before. Rule:
// Cluster API proposal "machine deletion phase hooks".
func preDrainHooksStage() Stage {
	return Stage{
		Name: StepPreDrainHooks, Reason: ReasonWaitingForPreDrainHook, care: true, Run: waitForPreDrainHooks,
		done: func(s *Scope) bool { return s.decidedCare() == careNone },
	}
}

func waitForPreDrainHooks(_ context.Context, s *Scope) (Result, error) {
	return s.waitForHooks(contract.PreDrainHook, ReasonWaitingForPreDrainHook, "pre-drain"), nil
}

// preTerminateHooksStage waits for pre-terminate hooks before the infrastructure is deleted, also when the Node is neither drained nor
// deleted. The first pass that waits is recorded: the drain is over then.
func preTerminateHooksStage() Stage {
	return Stage{Name: StepPreTerminateHooks, Reason: ReasonWaitingForPreTerminateHook, Run: waitForPreTerminateHooks}
}

func waitForPreTerminateHooks(_ context.Context, s *Scope) (Result, error) {
	result := s.waitForHooks(contract.PreTerminateHook, ReasonWaitingForPreTerminateHook, "pre-terminate")
	if result.Stop && s.heldBy == "" { // a Node that is another Machine's now may yet have to be drained
		s.begin(StepPreTerminateHooks)
	}
	return result, nil
}

// waitForHooks looks at the hooks in every pass, whatever stage the deletion has reached, because others can add them at any time.
func (s *Scope) waitForHooks(prefix, reason, name string) Result {
	hooks := hooksOf(s.State.Annotations, prefix)
	if len(hooks) == 0 {
		return Result{}
	}
	if !s.begins(StepDrain).IsZero() {
		s.releaseNode() // a hook that was added late delays a drain too
	}
	return s.Wait(reason, fmt.Sprintf("Waiting for %s hooks to succeed (hooks: %s)", name, strings.Join(hooks, ",")))
}

// drainLimit is the timeout in the Machine's spec. Zero and negative values mean no limit.
func (s *Scope) drainLimit() time.Duration { return s.State.NodeDrainTimeout.Or(0) }

// limitReached reports whether a stage that began has reached its limit.
func limitReached(started time.Time, limit time.Duration, now time.Time) bool {
	return limit > 0 && !started.IsZero() && !now.Before(started.Add(limit))
}

// until is when to look again: after the given duration (zero for none), and at the latest when the limit of a stage is reached. Starts
// are recorded in whole seconds, so a limit may seem to end up to a second early.
func (s *Scope) until(after time.Duration, started time.Time, limit time.Duration) time.Duration {
	if limit <= 0 || started.IsZero() {
		return after
	}
	return engine.Soonest(after, max(started.Add(limit).Sub(s.Now), time.Second))
}

func notWithin(limit time.Duration) string { return fmt.Sprintf("not completed within %s", limit) }

// Reasons and actions of the events about stages of a deletion that were not completed.
const (
	// EventDrainFailed, EventVolumeDetachFailed and EventNodeDeletionFailed are Cluster API's.
	EventDrainFailed        = "FailedDrainNode"           // the deletion continues, and Pods are left on the Node
	EventVolumeDetachFailed = "FailedWaitForVolumeDetach" // the deletion continues with volumes attached
	EventNodeDeletionFailed = "FailedDeleteNode"          // the deletion continues, and the Node stays
	actionDeleteNode        = "DeleteNode"
)

// Reasons of the events about a Node that a deletion leaves as it is without an attempt. They are warnings unless the Machine asks for it
// or the Node is deleted with its Cluster.
const (
	// EventNodeNotDrained: the Node is not drained, or neither drained nor deleted. The note says why.
	EventNodeNotDrained = "NodeNotDrained"
	// EventNodeNotDeleted: the Node stays when the Machine is removed.
	EventNodeNotDeleted = "NodeNotDeleted"
	// EventNodeUncordoned: others make the Node schedulable again during its drain.
	EventNodeUncordoned = "NodeUncordoned"
)
