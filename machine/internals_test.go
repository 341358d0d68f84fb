package machine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
)

// base is what the Scope of a Machine embeds.
type base = engine.Scope[contract.MachineState, contract.MachineUpdate]

// testReconciler connects parts that New would not accept, for tests of single steps. Options have no defaults.
func testReconciler(kind contract.Kind, ports Ports, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	}
	return newReconciler(&frame{
		Kind: kind, Ports: ports.Ports, Options: options.Options, Writer: patch.NewWriter(ports.Client, options.Clock),
	}, ports, options)
}

// attached returns a Scope that reads and writes through its Reconciler.
func attached(s *Scope) *Scope {
	if s.env == nil {
		s.env = testReconciler(testKind(), Ports{}, Options{})
	}
	s.Attach(s.env.frame)
	s.memory = s.env.memory.Of(s.State.Key, s.State.UID)
	return s
}

// run executes steps as a pass does.
func run(ctx context.Context, steps []Step, s *Scope) (Result, error) {
	return engine.RunSteps(ctx, steps, s, runStep)
}

// SetPhase is for steps of tests that take the place of StepPhase.
func (s *Scope) SetPhase(phase string) { s.setPhase(phase) }

// record is a record of a deletion with some stages.
func record(stages ...func(*contract.Deletion)) (d contract.Deletion) {
	for _, stage := range stages {
		stage(&d)
	}
	return d
}

// begun and ended are stages of a record.
func begun(stage string, at time.Time) func(*contract.Deletion) {
	return func(d *contract.Deletion) { d.Begin(stage, at) }
}

func ended(stage string, node types.UID) func(*contract.Deletion) {
	return func(d *contract.Deletion) { d.End(stage, node, time.Unix(1, 0)) }
}
