package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	members, err := engine.NewMembers[contract.MachineUpdate]()
	if err != nil {
		panic(err) //nolint:forbidigo // a test of the package would be wrong
	}
	return newReconciler(&frame{
		Kind: kind, Ports: ports.Ports, Options: options.shared(), Members: members, Writer: patch.NewWriter(ports.Client, options.Clock),
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
	return engine.RunSteps(ctx, steps, s, !s.State.Deleting.IsZero(), func(ctx context.Context, step *Step, s *Scope) (Result, error) {
		return engine.RunStep(ctx, step, s, &s.Scope, runStep)
	})
}

// delayed has the status of the Machine default/m1 wait to be written.
func delayed(t *testing.T, r *Reconciler) {
	t.Helper()
	obj := r.kind.New()
	obj.SetNamespace("default")
	obj.SetName("m1")
	s := &Scope{env: r}
	require.NoError(t, engine.Begin(&s.Scope, r.frame, obj))
	s.memory = r.memory.Of(s.State.Key, s.State.UID)
	s.setPhase("Pending")
	require.NoError(t, flush(t.Context(), s, nil))
	require.Equal(t, 1, r.frame.Waiting())
}

// SetPhase is for steps of tests that take the place of StepPhase.
func (s *Scope) SetPhase(phase string) { s.setPhase(phase) }
