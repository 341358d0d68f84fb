package machine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
)

// falls has the kubelet of a Node answer no more since a while.
func (w *world) falls(name string, silent time.Duration) {
	w.t.Helper()
	node := w.node(name)
	base := client.MergeFrom(node.DeepCopy())
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(time.Now().Add(-silent))
		}
	}
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), node, base))
}

func TestANodeThatDoesNotAnswerDoesNotHoldADeletion(t *testing.T) {
	t.Parallel()
	policy := machine.Policy{DrainPolicy: &drain.Policy{Unreachable: &drain.UnreachablePolicy{SkipTerminatingAfter: time.Second}}}
	w := newWorld(t, worldOptions{machine: machine.Options{StatusDelay: -1, Policy: policy}})
	m := w.machineWith("m")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeName: "m", TerminationGracePeriodSeconds: new(int64(3600)), Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	w.create(pod)
	w.falls("m", 30*time.Minute)
	require.NoError(t, w.client.Delete(t.Context(), pod))
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	require.NotNil(t, pod.DeletionTimestamp, "the pod goes, and no kubelet ends it")
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	w.told(machine.EventNodeDrained)
}

// asked is a Drainer that remembers what it was asked for, and answers what it is told to.
type asked struct {
	mu      sync.Mutex
	answer  runner.Result
	drains  []runner.Request
	volumes []runner.VolumeRequest
}

func (a *asked) Step(_ context.Context, r runner.Request) (runner.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drains = append(a.drains, r)
	return a.answer, nil
}

func (a *asked) StepVolumes(_ context.Context, r runner.VolumeRequest) (runner.VolumesResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.volumes = append(a.volumes, r)
	return runner.VolumesResult{Done: true}, nil
}

func (a *asked) Release(string) {}

// deletedBy has a Machine deleted by way of a, with a step that says something before the drain.
func deletedBy(t *testing.T, a *asked, says func(*machine.Scope)) *world {
	t.Helper()
	steps, err := engine.InsertBefore(machine.Steps(), machine.StepDrain, machine.Step{
		Name: "ask-the-provider", On: engine.InDeletion,
		Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			says(s)
			return machine.Result{}, nil
		},
	})
	require.NoError(t, err)
	o := worldOptions{machine: machine.Options{StatusDelay: -1, Steps: steps}, ports: func(mgr ctrl.Manager, p *machine.Ports) {
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

func TestADrainThatIsGivenUpEndsAsAtItsLimit(t *testing.T) {
	t.Parallel()
	t.Run("by its policy", func(t *testing.T) {
		t.Parallel()
		policy := machine.Policy{DrainPolicy: &drain.Policy{Stages: []drain.Stage{{After: time.Second, Mode: drain.ModeAbandon}}}}
		blocked := &asked{answer: runner.Result{Counts: drain.Counts{Total: 1, Blocked: 1}}} // one of the policy would give up in the same second
		w := newWorld(t, worldOptions{machine: machine.Options{StatusDelay: -1, Policy: policy}, ports: func(_ ctrl.Manager, p *machine.Ports) {
			p.Workload.Drainer = blocked
		}})
		m := w.running([]string{"m"}, 2, 2)[0]
		require.NoError(t, w.client.Delete(t.Context(), m))
		w.goes(m)
		require.Equal(t, `error draining Machine's node "m": not completed within 1s: the deletion goes on without`,
			w.recorded(machine.EventDrainFailed, 1)[0].Note)
		require.Empty(t, w.events(machine.EventNodeDrained))
	})
	t.Run("by the Drainer", func(t *testing.T) {
		t.Parallel()
		w := deletedBy(t, &asked{answer: runner.Result{Abandoned: true}}, func(*machine.Scope) {})
		require.Equal(t, `error draining Machine's node "m": given up by the drain policy: the deletion goes on without`,
			w.recorded(machine.EventDrainFailed, 1)[0].Note)
		require.Empty(t, w.events(machine.EventNodeDrained))
	})
}

func TestADrainPolicyThatIsWrongIsReportedAtOnce(t *testing.T) {
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	_, err := machine.New(kind, machine.Ports{},
		machine.Options{Policy: machine.Policy{DrainPolicy: &drain.Policy{GracePeriod: new(int64(0))}}})
	require.ErrorContains(t, err, "drain policy: GracePeriod is 0")
}
