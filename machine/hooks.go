package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
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
		started: s.State.PreDrainStarted, begin: s.SetPreDrainStarted, limit: s.limits().PreDrainHooks,
	}), nil
}

// preTerminateHooksStep waits for pre-terminate hooks before the infrastructure is deleted, also when the Node is neither drained nor
// deleted.
func preTerminateHooksStep(_ context.Context, s *Scope) (Result, error) {
	return s.waitForHooks(hookKind{
		prefix: contract.PreTerminateHook, reason: ReasonWaitingForPreTerminateHook, name: "pre-terminate",
		started: s.State.PreTerminateStarted, begin: s.SetPreTerminateStarted, limit: s.limits().PreTerminateHooks,
	}), nil
}

type hookKind struct {
	prefix, reason, name string
	started              time.Time
	begin                func(time.Time)
	limit                time.Duration
}

func (s *Scope) waitForHooks(k hookKind) Result {
	hooks := hooksOf(s.State.Annotations, k.prefix)
	switch decideHooks(hookFacts{Hooks: hooks, Started: k.started, Limit: k.limit, Now: s.Now}) {
	case hooksDone:
		return Result{}
	case hooksOverdue:
		s.abandon(k.reason, EventHooksFailed, actionWait, fmt.Sprintf(
			"%s, %s: the deletion goes on without", waitingForHooks(k.name, hooks), notWithin(k.limit)))
		return Result{}
	case hooksBegin:
		k.begin(s.Now)
		k.started = s.Now
	case hooksWait:
	}
	if !s.State.DrainStarted.IsZero() {
		s.releaseNode() // a hook that was added late delays a drain too
	}
	wait := s.Wait(k.reason, waitingForHooks(k.name, hooks))
	wait.RequeueAfter = s.until(0, k.started, k.limit)
	return wait
}
