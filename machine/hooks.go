package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/contract"
)

func preDrainHooksStep(_ context.Context, s *Scope) (Result, error) {
	return s.waitForHooks(contract.PreDrainHook, ReasonWaitingForPreDrainHook, "pre-drain")
}

func preTerminateHooksStep(_ context.Context, s *Scope) (Result, error) {
	return s.waitForHooks(contract.PreTerminateHook, ReasonWaitingForPreTerminateHook, "pre-terminate")
}

// waitForHooks stops the pass while an annotation asks for it. Hooks are looked at in every pass, and have no limit.
func (s *Scope) waitForHooks(prefix, reason, name string) (Result, error) {
	var hooks []string
	for key := range s.State.Annotations {
		if strings.HasPrefix(key, prefix) {
			hooks = append(hooks, key)
		}
	}
	if len(hooks) == 0 {
		return Result{}, nil
	}
	slices.Sort(hooks)
	return s.Wait(reason, fmt.Sprintf("Waiting for %s hooks to succeed (hooks: %s)", name, strings.Join(hooks, ","))), nil
}
