package machine

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
)

// Limits are how long the stages of a deletion may take, from when the Machine records that the stage began; for NodeDeletion from the
// first attempt to delete the Node. Zero and negative values mean no limit. When a limit is reached, the deletion continues without the
// stage, and an event reports that.
type Limits struct {
	// PreDrainHooks and PreTerminateHooks limit the wait for hook annotations. Cluster API has no such limits.
	PreDrainHooks, PreTerminateHooks time.Duration
	// Drain limits the drain, and Volumes the wait for volumes.
	Drain, Volumes time.Duration
	// NodeDeletion limits the attempts to delete the Node, of which one is made when it has passed, and the wait until it is gone.
	NodeDeletion time.Duration
}

// DefaultLimits is what Policy.Limits uses when it is nil: the timeouts in the Machine's spec, and DefaultNodeDeletionTimeout where it has
// none for its Node's deletion. Hooks have no limit.
func DefaultLimits(state *contract.MachineState) Limits {
	return Limits{
		Drain: state.NodeDrainTimeout.Or(0), Volumes: state.NodeVolumeDetachTimeout.Or(0),
		NodeDeletion: state.NodeDeletionTimeout.Or(DefaultNodeDeletionTimeout),
	}
}

// limits returns the limits of this Machine. A drain policy that gives up sets a limit too.
func (s *Scope) limits() Limits {
	policy, decide := &s.env.options.Policy, DefaultLimits
	if policy.Limits != nil {
		decide = policy.Limits
	}
	limits := decide(&s.State)
	if policy.DrainPolicy != nil {
		limits.Drain = soonest(limits.Drain, policy.DrainPolicy.AbandonsAfter())
	}
	return limits
}

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
	return soonest(after, max(started.Add(limit).Sub(s.Now), time.Second))
}

func notWithin(limit time.Duration) string { return fmt.Sprintf("not completed within %s", limit) }

// Reasons and actions of the events about stages of a deletion that were not completed.
const (
	// EventDrainFailed, EventVolumeDetachFailed and EventNodeDeletionFailed are Cluster API's.
	EventDrainFailed        = "FailedDrainNode"
	EventVolumeDetachFailed = "FailedWaitForVolumeDetach"
	EventNodeDeletionFailed = "FailedDeleteNode"
	// EventHooksFailed: a limit ended the wait for hooks.
	EventHooksFailed = "FailedWaitForHooks"
	actionWait       = "Wait"
	actionDeleteNode = "DeleteNode"
)

// stages are the reasons of the condition Deleting in the order in which a deletion goes through them.
func stages() []string {
	return []string{
		ReasonNotDeleting, ReasonDeleting, ReasonWaitingForPreDrainHook, ReasonDrainingNode, ReasonWaitingForVolumeDetach,
		ReasonWaitingForPreTerminateHook, ReasonWaitingForInfrastructureDeletion, ReasonWaitingForBootstrapDeletion, ReasonDeletingNode,
		ReasonDeletionCompleted,
	}
}

// abandon records once that the deletion continues without a stage: in the pass that leaves it. The written condition names that stage, so
// this status is written at once.
func (s *Scope) abandon(stage, reason, action, note string) {
	stored, _ := findCondition(s.stored, ConditionDeleting)
	if slices.Index(stages(), stored.Reason) > slices.Index(stages(), stage) {
		return
	}
	s.tell(corev1.EventTypeWarning, reason, action, note)
	s.urgent = true
}
