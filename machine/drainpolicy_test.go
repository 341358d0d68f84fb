package machine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

// asked is a Drainer that remembers what it was asked for, and answers what it is told to.
type asked struct {
	mu      sync.Mutex
	answer  runner.Result
	drains  []runner.Request
	volumes []runner.Request
}

func (a *asked) Step(_ context.Context, r runner.Request) (runner.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drains = append(a.drains, r)
	return a.answer, nil
}

func (a *asked) StepVolumes(_ context.Context, r runner.Request, _ time.Duration) (runner.VolumesResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.volumes = append(a.volumes, r)
	return runner.VolumesResult{Done: true}, nil
}

func (a *asked) Release(string) {}

// deletedBy has a Machine deleted by way of a, with a step that says something before the drain.
func deletedBy(t *testing.T, a *asked, says func(*machine.Scope)) *world {
	t.Helper()
	steps := machine.Steps().InsertBefore(machine.StepDrain, machine.Step{
		Name: "ask-the-provider", On: engine.InDeletion,
		Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			says(s)
			return machine.Result{}, nil
		},
	})
	o := worldOptions{machine: machine.Options{
		Options: engine.Options{StatusDelay: -1}, Steps: steps,
	}, ports: func(mgr ctrl.Manager, p *machine.Ports) {
		p.Workload.Drainer, p.Workload.Volumes = a, a
	}}
	w := newWorld(t, o)
	m := w.machineWith("m")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	return w
}

func TestADrainGetsItsPolicyAndWhatTheProviderReportsOfTheMachine(t *testing.T) {
	t.Parallel()
	type seen struct{ Drains, Volumes, Off bool }
	for name, tc := range map[string]struct {
		says func(*machine.Scope)
		want seen
	}{
		"nothing":   {func(*machine.Scope) {}, seen{Drains: true, Volumes: true}},
		"it is off": {func(s *machine.Scope) { s.PoweredOff = true }, seen{Drains: true, Volumes: true, Off: true}},
		"gone":      {func(s *machine.Scope) { s.InstanceGone = true }, seen{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &asked{answer: runner.Result{Done: true}}
			deletedBy(t, a, tc.says)
			a.mu.Lock()
			defer a.mu.Unlock()
			got := seen{Drains: len(a.drains) > 0, Volumes: len(a.volumes) > 0}
			for _, r := range a.drains {
				got.Off = r.PoweredOff
				if diff := cmp.Diff(drain.DefaultPolicy(), r.Policy); diff != "" {
					t.Errorf("policy (-want +got):\n%s", diff)
				}
			}
			for _, r := range a.volumes {
				require.Equal(t, got.Off, r.PoweredOff)
			}
			if got != tc.want {
				t.Errorf("want %+v, got %+v", tc.want, got)
			}
		})
	}
}

func TestANodeThatOthersUncordonIsAnEvent(t *testing.T) {
	t.Parallel()
	a := &asked{answer: runner.Result{Done: true, Event: &drain.Blocker{Message: "the Node was made schedulable again"}}}
	w := deletedBy(t, a, func(*machine.Scope) {})
	require.Contains(t, w.recorded(machine.EventNodeUncordoned, 1)[0].Note, "made schedulable again")
}

func TestADrainPolicyThatIsWrongIsReportedAtOnce(t *testing.T) {
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	_, err := machine.New(kind, machine.Ports{},
		machine.Options{Policy: machine.Policy{DrainPolicy: &drain.Policy{GracePeriod: new(int64(0))}}})
	require.ErrorContains(t, err, "drain policy: GracePeriod must be at least 1")
}
