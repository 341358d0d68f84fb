package machinepool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func TestAListWithoutAStepThatKeepsAPoolSafeIsRefused(t *testing.T) {
	optional := map[string]bool{
		StepSyncMachines: true, StepPropagate: true, StepLeaving: true, StepDrain: true, StepDeleteBootstrap: true, StepDeleteNodes: true,
		StepStatus: true,
	}
	for _, s := range Steps() {
		t.Run(s.Name, func(t *testing.T) {
			steps := Steps().Remove(s.Name)
			kinds, err := ClusterAPI(contract.V1Beta2)
			require.NoError(t, err)
			a := &api{}
			ports := Ports{Ports: engine.Ports{Client: a, Cache: &byKey{}, APIReader: a}, Workload: cluster.Workload{Nodes: synced{}}}
			_, err = New(kinds, ports, Options{Steps: steps})
			if optional[s.Name] {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "step "+s.Name)
			require.ErrorContains(t, err, "keep")
		})
	}
}

func TestAStepThatPrecedesTheStepsOfPoolsMustKeepTheirOrder(t *testing.T) {
	steps := Steps()
	steps[0], steps[1] = steps[1], steps[0]
	require.ErrorContains(t, checkSteps(steps), "step paused is after finalizer")
	own := Step{Name: "own", On: engine.InDeletion, Run: acts(func(*Scope, context.Context) error { return nil })}
	late := Steps().InsertAfter(StepRemoveFinalizer, own)
	require.ErrorContains(t, checkSteps(late), "step own is after remove-finalizer")
	replaced := Steps().Replace(StepDeleteNodes, Step{Name: StepDeleteNodes, On: engine.InDeletion, Run: own.Run})
	require.NoError(t, checkSteps(replaced))
	running := Steps().Replace(StepPaused, Step{Name: StepPaused, On: engine.InRunning, Run: own.Run})
	require.ErrorContains(t, checkSteps(running), "step remove-finalizer needs step paused in front of it")
}

func TestAnErrorOfAReadInADeletionDelaysOnlyWhatNeedsTheObject(t *testing.T) {
	p, _ := acting(t, &api{})
	unread := errors.New("unread")
	ran := false
	steps := []Step{
		{Name: StepBootstrap, On: engine.InBoth, Run: observes(func(*Scope, context.Context) error { return unread })},
		{Name: StepDrain, On: engine.InDeletion, Run: stage(func(*Scope, context.Context) (bool, error) { ran = true; return true, nil })},
	}
	_, err := engine.RunSteps(t.Context(), steps, p, nil)
	require.NoError(t, err)
	require.True(t, ran)
	require.ErrorIs(t, p.Deferred(), unread, "the pass fails with it, and is retried")

	p, _ = acting(t, &api{})
	p.State.Deleting = time.Time{}
	_, err = engine.RunSteps(t.Context(), steps, p, nil)
	require.ErrorIs(t, err, unread)
	require.NoError(t, p.Deferred())
}

func TestACheckpointOfAStepIsWrittenAtOnceAndEndsThePassWhenItChangesThePool(t *testing.T) {
	for name, tc := range map[string]struct {
		decide func(*Scope)
		ends   bool
	}{
		"nothing":      {decide: func(*Scope) {}},
		"a condition":  {decide: func(p *Scope) { p.Assert(engine.Condition("Approved", metav1.ConditionFalse, "Waiting", "")) }, ends: true},
		"a label":      {decide: func(p *Scope) { p.SetLabel("example.com/a", "b") }, ends: true},
		"no new value": {decide: func(p *Scope) { p.SetFinalizers(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &api{})
			own := Step{Name: "own", On: engine.InBoth, Run: func(_ context.Context, p *Scope) (Result, error) {
				tc.decide(p)
				return Result{Checkpoint: true}, nil
			}}
			result, err := engine.RunSteps(t.Context(), []Step{own}, p, nil)
			require.NoError(t, err)
			require.Equal(t, tc.ends, result.Checkpoint)
		})
	}
}
