package machine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

func TestAStatusThatWasDueAndMetAConflictIsWrittenByTheNextPass(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	steps := []machine.Step{{Name: "phase", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
		s.SetPhase("Pending")
		return machine.Result{}, nil
	}}}
	p := newPassesByHand(t, machine.Options{Options: engine.Options{Clock: clock, StatusDelay: time.Minute}, Steps: steps})
	r := p.Reconciler
	old, _ := p.read()
	changed, _ := p.read()
	changed.SetLabels(map[string]string{"tier": "a"})
	require.NoError(t, p.client.Update(t.Context(), changed))

	result, err := r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)
	require.Equal(t, time.Second, result.RequeueAfter, "it is tried again on a fresh read")
	fresh, _ := p.read()
	_, err = r.ReconcileObject(t.Context(), fresh)
	require.NoError(t, err)
	_, state := p.read()
	require.Equal(t, "Pending", state.Phase)
}
