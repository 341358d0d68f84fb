package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// hookFacts are the inputs of decideHooks, for hooks of one kind.
type hookFacts struct {
	// Hooks are the annotations that ask to wait.
	Hooks []string
	// Started is when the wait for them began, zero before; Limit is how long it may take, zero for no limit.
	Started time.Time
	Limit   time.Duration
	Now     time.Time
}

type hookAction uint8

const (
	hooksDone hookAction = iota
	// hooksBegin: wait, and record that the wait began.
	hooksBegin
	hooksWait
	// hooksOverdue: continue although there are hooks.
	hooksOverdue
)

// decideHooks: every pass looks at the hooks, whatever stage the deletion has reached, because others can add them at any time.
func decideHooks(f hookFacts) hookAction {
	switch {
	case len(f.Hooks) == 0:
		return hooksDone
	case f.Started.IsZero():
		return hooksBegin
	case limitReached(f.Started, f.Limit, f.Now):
		return hooksOverdue
	}
	return hooksWait
}

// hooksOf returns the annotations with a prefix, sorted.
func hooksOf(annotations map[string]string, prefix string) []string {
	var hooks []string
	for key := range annotations {
		if strings.HasPrefix(key, prefix) {
			hooks = append(hooks, key)
		}
	}
	slices.Sort(hooks)
	return hooks
}

// maxHookNames is how many hooks a message names.
const maxHookNames = 10

func waitingForHooks(name string, hooks []string) string {
	list := strings.Join(hooks[:min(len(hooks), maxHookNames)], ",")
	if more := len(hooks) - maxHookNames; more > 0 {
		list += fmt.Sprintf(",... (%d more)", more)
	}
	return fmt.Sprintf("Waiting for %s hooks to succeed (hooks: %s)", name, list)
}

// preDrainHooksStep waits for pre-drain hooks. When the Node is neither drained nor deleted, there is no drain to wait before. Rule:
// Cluster API proposal "machine deletion phase hooks".
func preDrainHooksStep(_ context.Context, s *Scope) (Result, error) {
	switch s.care() {
	case CareNone:
		return Result{}, nil
	case CareUnknown:
		return s.careUnknown()
	case CareDrainAndDelete:
	}
	return s.waitForHooks(hookKind{
		prefix: contract.PreDrainHook, reason: ReasonWaitingForPreDrainHook, name: "pre-drain",
		started: &s.State.PreDrainStarted, change: &s.Update.PreDrainStarted, limit: s.limits().PreDrainHooks,
	}), nil
}

// preTerminateHooksStep waits for pre-terminate hooks before the infrastructure is deleted, also when the Node is neither drained nor
// deleted.
func preTerminateHooksStep(_ context.Context, s *Scope) (Result, error) {
	return s.waitForHooks(hookKind{
		prefix: contract.PreTerminateHook, reason: ReasonWaitingForPreTerminateHook, name: "pre-terminate",
		started: &s.State.PreTerminateStarted, change: &s.Update.PreTerminateStarted, limit: s.limits().PreTerminateHooks,
	}), nil
}

// hookKind is one of the two kinds of hooks.
type hookKind struct {
	prefix, reason, name string
	started              *time.Time
	change               *contract.Change[time.Time]
	limit                time.Duration
}

func (s *Scope) waitForHooks(k hookKind) Result {
	hooks := hooksOf(s.State.Annotations, k.prefix)
	switch decideHooks(hookFacts{Hooks: hooks, Started: *k.started, Limit: k.limit, Now: s.Now}) {
	case hooksDone:
		return Result{}
	case hooksOverdue:
		s.reportSkipped(k.reason, EventHooksFailed, actionWait, fmt.Sprintf(
			"%s, %s: the deletion goes on without", waitingForHooks(k.name, hooks), notWithin(k.limit)))
		return Result{}
	case hooksBegin:
		s.began(k.started, s.Now, k.change)
	case hooksWait:
	}
	if !s.State.DrainStarted.IsZero() {
		s.releaseNode() // a hook that was added late delays a drain too
	}
	return s.waitFor(k.reason, waitingForHooks(k.name, hooks), s.until(0, *k.started, k.limit))
}

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

// limits returns the limits of this Machine.
func (s *Scope) limits() Limits {
	policy, decide := &s.env.options.Policy, DefaultLimits
	if policy.Limits != nil {
		decide = policy.Limits
	}
	return decide(&s.State)
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
	return engine.Soonest(after, max(started.Add(limit).Sub(s.Now), time.Second))
}

func notWithin(limit time.Duration) string { return fmt.Sprintf("not completed within %s", limit) }

// Reasons and actions of the events about stages of a deletion that were not completed.
const (
	// EventDrainFailed, EventVolumeDetachFailed and EventNodeDeletionFailed are Cluster API's.
	EventDrainFailed        = "FailedDrainNode"           // the deletion continues, and Pods are left on the Node
	EventVolumeDetachFailed = "FailedWaitForVolumeDetach" // the deletion continues with volumes attached
	EventNodeDeletionFailed = "FailedDeleteNode"          // the deletion continues, and the Node stays
	// EventHooksFailed: a limit ended the wait for hooks.
	EventHooksFailed = "FailedWaitForHooks"
	actionWait       = "Wait"
	actionDeleteNode = "DeleteNode"
)

// stages are the reasons of the condition Deleting in the order in which a deletion goes through them.
func stages() []string {
	return []string{
		contract.ReasonNotDeleting, contract.ReasonDeleting, ReasonWaitingForPreDrainHook, contract.ReasonDrainingNode,
		ReasonWaitingForVolumeDetach,
		ReasonWaitingForPreTerminateHook, contract.ReasonWaitingForInfrastructureDeletion, contract.ReasonWaitingForBootstrapDeletion,
		contract.ReasonDeletingNode,
		contract.ReasonDeletionCompleted,
	}
}

// reportSkipped records once that the deletion continues without a stage: in the pass that leaves it. The written condition names that
// stage, so this status is written at once.
func (s *Scope) reportSkipped(stage, reason, action, note string) {
	stored, _ := engine.Find(s.Stored, contract.ConditionDeleting)
	if slices.Index(stages(), stored.Reason) > slices.Index(stages(), stage) {
		return
	}
	s.tell(corev1.EventTypeWarning, reason, action, note)
	s.urgent = true
}
