package machinepool_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machinepool"
)

// A step of an embedder stands between two standard steps: it holds back those behind it, or fails, or lets the pool go on.
func TestAStepOfAnEmbedderRunsStopsAndFailsBetweenTwoOthers(t *testing.T) {
	t.Parallel()
	const stops, fails, runs = 0, 1, 2
	var mode atomic.Int32
	own := machinepool.Step{Name: "quota", On: engine.InRunning, Run: func(_ context.Context,
		p *machinepool.Scope) (machinepool.Result, error) {
		switch mode.Load() {
		case stops:
			p.Assert(engine.Condition("QuotaGranted", metav1.ConditionFalse, "QuotaExceeded", "The quota has no room for "+p.State.Key.Name))
			return machinepool.Result{Stop: true}, nil
		case fails:
			return machinepool.Result{}, errors.New("the quota cannot be read")
		}
		p.Assert(engine.Condition("QuotaGranted", metav1.ConditionTrue, "QuotaGranted", ""))
		p.ChangeAnnotation("example.com/quota", contract.SetTo("granted"))
		return machinepool.Result{}, nil
	}}
	steps := machinepool.Steps().InsertAfter(machinepool.StepFinalizer, own)
	failed := &failures{}
	w := newWorld(t, worldOptions{
		provider: &fake.PoolInfrastructure{}, pool: machinepool.Options{
			Steps: steps, Options: engine.Options{Controller: failed.options()},
		},
	})
	pool := w.poolWith(1)
	w.conditionIs(pool, "QuotaGranted", "QuotaExceeded")
	w.conditionIs(pool, contract.ConditionDeleting, contract.ReasonNotDeleting)
	require.NotEmpty(t, w.get(pool).GetFinalizers(), "the steps in front of it have run")
	require.Empty(t, w.get(fake.InfraMachinePool(contract.V1Beta2, "pool")).GetOwnerReferences(), "the steps behind it have not run")

	mode.Store(fails)
	w.change(pool, fake.WithAnnotations(map[string]string{"example.com/again": "1"}))
	w.eventually("the error is returned", func() string {
		if text := failed.last(); !strings.Contains(text, "step quota: the quota cannot be read") {
			return "got " + text
		}
		return ""
	})
	w.reports(pool, "Running", 1, 1) // a step that fails does not hold back the others

	mode.Store(runs)
	w.change(pool, fake.WithAnnotations(map[string]string{"example.com/again": "2"}))
	w.conditionIs(pool, "QuotaGranted", "QuotaGranted")
	require.Equal(t, "granted", w.get(pool).GetAnnotations()["example.com/quota"])
}
