package machine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// cloudWorld is a world whose Machines have a Driver, and no objects for bootstrap and infrastructure.
type cloudWorld struct {
	*world

	cloud *fake.Driver

	mu    sync.Mutex
	token string // what the credentials are
}

// quickBackoff is a back-off that a test can wait for.
func quickBackoff() provider.Backoff {
	b := provider.DefaultBackoff()
	for class, pause := range b {
		if pause.Base > 0 {
			b[class] = provider.Pause{Base: 10 * time.Millisecond, Max: 20 * time.Millisecond}
		}
	}
	b[provider.Unauthenticated] = provider.Pause{Max: 10 * time.Minute}
	return b
}

func newCloudWorld(t *testing.T, o fake.DriverOptions) *cloudWorld {
	t.Helper()
	w := &cloudWorld{cloud: fake.NewDriver(o), token: o.Token}
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: provider.Of(w.cloud), Backoff: quickBackoff(), Poll: 10 * time.Millisecond, Refresh: 100 * time.Millisecond,
		RequestOf: func(_ context.Context, m *contract.MachineState) (provider.Request, error) {
			return provider.Request{Spec: m.Provider.Spec, Credentials: w.credentials}, nil
		},
	})
	steps = steps.Remove(machine.StepBootstrap)
	steps = steps.Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
	w.world = newWorld(t, worldOptions{kind: shapes()["Kubermatic, without a status subresource"].kind, noCRDs: true,
		machine: machine.Options{Steps: steps}})
	return w
}

func (w *cloudWorld) credentials(context.Context) (provider.Values, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return provider.Values{"token": []byte(w.token)}, nil
}

// machineOf creates a Machine of a size.
func (w *cloudWorld) machineOf(size string) *unstructured.Unstructured {
	w.t.Helper()
	m := testenv.Object(shapes()["Kubermatic, without a status subresource"].kind.GVK, "m1")
	m.Object["spec"] = map[string]any{"providerSpec": map[string]any{"value": map[string]any{"size": size}}}
	w.Create(m)
	return m
}

// joins waits for the provider ID of a Machine, and creates its Node.
func (w *cloudWorld) joins(m *unstructured.Unstructured) {
	w.t.Helper()
	var id string
	w.Eventually("a provider ID", func() string {
		id, _, _ = unstructured.NestedString(w.Get(m).Object, "spec", "providerID")
		if id == "" {
			return "none yet: " + describe(w.Get(m))
		}
		return ""
	})
	w.Create(fake.Node(m.GetName(), id))
}

func TestAMachineWithADriverLivesAndDies(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{Boot: 50 * time.Millisecond, Vanish: 50 * time.Millisecond})
	m := w.machineOf("enormous")
	w.reaches(m, string(phases.Validating))
	said := w.conditionIs(m, contract.ConditionInfrastructureReady, "InvalidConfiguration")
	require.Contains(t, said, `size "enormous": give one of small, large`)
	w.isQuiet()
	asked := w.cloud.Calls(provider.OpValidate)
	for range 5 {
		w.annotate(m, map[string]any{"example.com/wake": time.Now().String()})
		w.isQuiet()
	}
	require.Equal(t, asked, w.cloud.Calls(provider.OpValidate), "it costs no call until the specification changes")
	require.Zero(t, w.cloud.Calls(provider.OpCreate))

	w.Change(m, fake.WithField("large", "spec", "providerSpec", "value", "size"))
	w.joins(m)
	w.reaches(m, string(phases.Running))
	require.Equal(t, 1, w.cloud.Made(string(m.GetUID())))
	addresses, _, _ := unstructured.NestedSlice(w.Get(m).Object, "status", "addresses")
	require.NotEmpty(t, addresses)

	w.Change(m, func(u *unstructured.Unstructured) { // the specification breaks, as a class may that is gone
		require.NoError(t, unstructured.SetNestedField(u.Object, "broken", "spec", "providerSpec", "value", "size"))
	})
	w.Remove(m)
	require.Empty(t, w.listedInCloud())
	require.Nil(t, w.nodeOrNil("m1"))
}

// running creates a Machine with an instance that is a Node, and waits until it is Running.
func (w *cloudWorld) running() *unstructured.Unstructured {
	w.t.Helper()
	m := w.machineOf("small")
	w.joins(m)
	w.reaches(m, string(phases.Running))
	return m
}

func (w *cloudWorld) listedInCloud() []provider.Instance {
	all, err := w.cloud.List(w.t.Context(), provider.Request{Credentials: w.credentials})
	require.NoError(w.t, err)
	return all
}

func (w *cloudWorld) nodeOrNil(name string) *unstructured.Unstructured {
	node := &unstructured.Unstructured{}
	node.SetAPIVersion("v1")
	node.SetKind("Node")
	node.SetName(name)
	return w.Get(node)
}

func TestAnAnswerThatIsLostMakesNoSecondInstance(t *testing.T) {
	var mu sync.Mutex
	lost := map[provider.Operation]int{provider.OpCreate: 3, provider.OpGet: 2, provider.OpDelete: 3}
	var w *cloudWorld
	var bare []string
	w = newCloudWorld(t, fake.DriverOptions{
		Boot: 20 * time.Millisecond, Hidden: 100 * time.Millisecond, Answer: func(op provider.Operation, r provider.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if op == provider.OpCreate { // the finalizer stands before anything is made
				m := testenv.Object(shapes()["Kubermatic, without a status subresource"].kind.GVK, r.Name)
				if !slices.Contains(w.Get(m).GetFinalizers(), contract.MachineFinalizer) {
					bare = append(bare, r.Name)
				}
			}
			if lost[op]--; lost[op] >= 0 {
				return errors.New("connection reset")
			}
			return nil
		},
	})
	m := w.running()
	w.Remove(m)
	mu.Lock()
	require.Empty(t, bare)
	mu.Unlock()
	require.Equal(t, 1, w.cloud.Made(string(m.GetUID())))
	require.Empty(t, w.listedInCloud())
}

func TestAMachineThatIsDeletedBeforeItsInstanceIsRecordedLeavesNone(t *testing.T) {
	var lose sync.Map
	lose.Store(provider.OpCreate, true)
	w := newCloudWorld(t, fake.DriverOptions{Answer: func(op provider.Operation, _ provider.Request) error {
		if _, lost := lose.Load(op); lost {
			return errors.New("connection reset")
		}
		return nil
	}})
	m := w.machineOf("small")
	w.Until("an instance that no answer told of", func() bool { return w.cloud.Made(string(m.GetUID())) != 0 })
	w.Remove(m)
	require.Empty(t, w.listedInCloud())
}

// The Machine has no Node when its deletion begins, so nothing is drained. The kubelet registers the Node while the instance is being
// deleted.
func TestANodeThatJoinsWhileItsInstanceIsBeingDeletedIsNotDrained(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w := newCloudWorld(t, fake.DriverOptions{Vanish: time.Hour, Clock: clock})
	m := w.machineOf("small")
	w.Eventually("a provider ID", func() string {
		if id, _, _ := unstructured.NestedString(w.Get(m).Object, "spec", "providerID"); id == "" {
			return "none yet: " + describe(w.Get(m))
		}
		return ""
	})
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	w.Create(budget("web", 1), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "m1", Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
	})
	w.joins(m)
	w.Eventually("the Node to be recorded", func() string {
		if name, _, _ := unstructured.NestedString(w.Get(m).Object, "status", "nodeRef", "name"); name == "" {
			return describe(w.Get(m))
		}
		return ""
	})
	asked := w.cloud.Calls(provider.OpDelete)
	w.Eventually("further calls that delete the instance", func() string {
		if w.cloud.Calls(provider.OpDelete) < asked+3 {
			return describe(w.Get(m))
		}
		return ""
	})
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion)
	require.Contains(t, w.recorded(machine.EventNodeNotDrained, 1)[0].Note, "the instance is gone or being deleted already")
	require.Empty(t, w.pod("web").DeletionTimestamp)
	clock.SetTime(clock.Now().Add(time.Hour))
	w.Gone(m)
	require.Nil(t, w.nodeOrNil("m1"))
}

func TestWrongCredentialsParkAMachineUntilTheyChange(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{Token: "right"})
	w.mu.Lock()
	w.token = "wrong"
	w.mu.Unlock()
	m := w.machineOf("small")
	w.conditionIs(m, contract.ConditionInfrastructureReady, string(provider.Unauthenticated))
	w.isQuiet()
	asked := w.cloud.Calls(provider.OpValidate)
	w.annotate(m, map[string]any{"example.com/wake": "1"})
	w.isQuiet()
	require.Equal(t, asked, w.cloud.Calls(provider.OpValidate))
	w.mu.Lock()
	w.token = "right"
	w.mu.Unlock()
	w.annotate(m, map[string]any{"example.com/wake": "2"})
	w.joins(m)
	w.reaches(m, string(phases.Running))
}

func TestAnInstanceThatIsLostFailsItsMachineAndIsNotMadeAgain(t *testing.T) {
	w := newCloudWorld(t, fake.DriverOptions{})
	m := w.running()
	require.True(t, w.cloud.Lose(string(m.GetUID()))) // no event says so
	w.conditionIs(m, contract.ConditionInfrastructureReady, instance.ReasonGone)
	w.isQuiet()
	require.Equal(t, 1, w.cloud.Made(string(m.GetUID())))
	w.Remove(m)
}

func TestAnInstanceThatIsSeenAgainFailsItsMachineNoLonger(t *testing.T) {
	var missed atomic.Bool
	w := newCloudWorld(t, fake.DriverOptions{Answer: func(op provider.Operation, _ provider.Request) error {
		if op == provider.OpGet && missed.Load() {
			return provider.Errorf(provider.NotFound, "404")
		}
		return nil
	}})
	m := w.running()
	missed.Store(true)
	w.conditionIs(m, contract.ConditionInfrastructureReady, instance.ReasonGone)
	w.reaches(m, string(phases.Failed))
	missed.Store(false)
	w.reaches(m, string(phases.Running))
	require.Equal(t, 1, w.cloud.Made(string(m.GetUID())))
}

func TestADriverNeedsItsCallsAndTheStepsThatItReplaces(t *testing.T) {
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{})
	require.ErrorContains(t, engine.CheckSteps(steps, machine.Steps()), "provider.Of")
	steps = machine.WithDriver(machine.Steps().Remove(machine.StepInfrastructure),
		machine.DriverOptions{Calls: provider.Of(fake.NewDriver(fake.DriverOptions{}))})
	require.ErrorIs(t, engine.CheckSteps(steps, machine.Steps()), engine.ErrNoStep)
}

func TestMetricsOfDriversAndReconcilersFitIntoOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	calls := provider.NewMetrics("fake")
	for _, c := range []prometheus.Collector{
		machine.NewMetrics(machine.MetricsOptions{}), engine.NewMetrics(engine.MetricsOptions{Kind: "MachineSet"}), calls,
	} {
		require.NoError(t, registry.Register(c))
	}
	driver := provider.Of(fake.NewDriver(fake.DriverOptions{Token: "right"}), calls.Decorator())
	_, err := driver.Create(t.Context(), provider.Request{})
	require.Error(t, err)
	_, err = registry.Gather()
	require.NoError(t, err)
}
