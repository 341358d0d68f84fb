package inframachine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// refusing is a Decorator whose Create fails with an error while refuse says so, and counts its calls.
func refusing(refuse func(r *provider.Request) error, calls *atomic.Int64) provider.Decorator {
	return provider.Around(func(ctx context.Context, op provider.Operation, r *provider.Request, call func(context.Context) error) error {
		if op == provider.OpCreate {
			calls.Add(1)
			if err := refuse(r); err != nil {
				return err
			}
		}
		return call(ctx)
	})
}

func (w *world) wake(obj *unstructured.Unstructured, value string) {
	w.t.Helper()
	w.Change(obj, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"example.com/wake": value}) })
}

func TestATerminalErrorParksUntilTheSpecificationChanges(t *testing.T) {
	var calls atomic.Int64
	w := newWorld(t, worldOptions{around: []provider.Decorator{refusing(func(r *provider.Request) error {
		if strings.Contains(string(r.Spec), "small") {
			return provider.Errorf(provider.Terminal, "small instances are sold out for ever")
		}
		return nil
	}, &calls)}})
	m, infra := w.machineOf("m1", "small")
	c := w.says(infra, contract.ConditionReady, string(provider.Terminal))
	require.Equal(t, "fake: small instances are sold out for ever", c.Message)
	w.isQuiet()
	require.EqualValues(t, 1, calls.Load())
	for _, value := range []string{"1", "2", "3"} {
		w.wake(infra, value)
		w.isQuiet()
	}
	require.EqualValues(t, 1, calls.Load(), "it costs no call until the specification changes")
	w.Eventually("an event", func() string {
		var list eventsv1.EventList
		require.NoError(t, w.Client.List(t.Context(), &list))
		for _, e := range list.Items {
			if e.Reason == string(provider.Terminal) && e.Regarding.Kind == "CloudMachine" {
				return ""
			}
		}
		return "there is none"
	})
	w.Change(infra, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "large", "spec", "size"))
	})
	w.reaches(m, string(phases.Running))
}

func TestWrongCredentialsParkUntilTheyChange(t *testing.T) {
	var mu sync.Mutex
	token := "wrong"
	w := newWorld(t, worldOptions{
		cloud: fake.DriverOptions{Token: "right"},
		options: inframachine.Options{Input: func(ctx context.Context, m *contract.ProvidedMachineState) (provider.Request, error) {
			r, err := inframachine.Spec(ctx, m)
			r.Credentials = func(context.Context) (provider.Values, error) {
				mu.Lock()
				defer mu.Unlock()
				return provider.Values{"token": []byte(token)}, nil
			}
			return r, err
		}},
	})
	m, infra := w.machineOf("m1", "small")
	w.says(infra, contract.ConditionReady, string(provider.Unauthenticated))
	w.isQuiet()
	asked := w.cloud.Calls(provider.OpValidate)
	w.wake(infra, "1")
	w.isQuiet()
	require.Equal(t, asked, w.cloud.Calls(provider.OpValidate))
	mu.Lock()
	token = "right"
	mu.Unlock()
	w.wake(infra, "2")
	w.reaches(m, string(phases.Running))
}

func TestALimitSlowsAllMachinesOfItsCredentialsAndNoOthers(t *testing.T) {
	var busy, refused atomic.Int64
	count := provider.Around(func(ctx context.Context, _ provider.Operation, r *provider.Request, call func(context.Context) error) error {
		if r.Account == "busy" {
			busy.Add(1)
			refused.Add(1)
			return &provider.Error{Class: provider.RateLimited, Err: errors.New("429"), RetryAfter: time.Hour}
		}
		return call(ctx)
	})
	w := newWorld(t, worldOptions{
		around: []provider.Decorator{count, provider.RateLimit(provider.RateLimitOptions{PerSecond: 1000, Burst: 10})},
		options: inframachine.Options{Input: func(ctx context.Context, m *contract.ProvidedMachineState) (provider.Request, error) {
			r, err := inframachine.Spec(ctx, m)
			r.Account, _, _ = strings.Cut(m.Key.Name, "-")
			return r, err
		}},
	})
	_, first := w.machineOf("busy-1", "small")
	w.says(first, contract.ConditionReady, string(provider.RateLimited))
	_, second := w.machineOf("busy-2", "small")
	other, _ := w.machineOf("idle-1", "small")
	w.says(second, contract.ConditionReady, instance.ReasonWaitingForRate)
	w.reaches(other, string(phases.Running))
	w.wake(first, "1")
	w.wake(second, "1")
	w.isQuiet()
	require.EqualValues(t, 1, busy.Load(), "one call has shown the limit, and none goes past it")
}

func TestAnInstanceThatIsLostFailsItsMachineAndIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		t.Run(string(v), func(t *testing.T) {
			w := newWorld(t, worldOptions{version: v, options: inframachine.Options{Refresh: 20 * time.Millisecond}})
			m, infra := w.machineOf("m1", "small")
			w.reaches(m, string(phases.Running))
			require.True(t, w.cloud.Lose(string(infra.GetUID())))
			c := w.says(infra, contract.ConditionReady, instance.ReasonGone)
			require.Equal(t, metav1.ConditionFalse, c.Status)
			reason, _, _ := unstructured.NestedString(w.Get(infra).Object, "status", "failureReason")
			if v == contract.V1Beta1 {
				require.Equal(t, instance.ReasonGone, reason)
			} else {
				require.Empty(t, reason, "the contract has dropped it")
			}
			require.Equal(t, 1, w.cloud.Made(string(infra.GetUID())))
			w.Delete(m)
			w.Gone(m, infra)
		})
	}
}

func TestWhatIsPausedOrOfAnotherControllerOrWithoutAMachineIsLeftAlone(t *testing.T) {
	w := newWorld(t, worldOptions{options: inframachine.Options{Options: pass.Options{WatchFilter: "ours"}}})
	ours := map[string]string{contract.WatchFilterLabel: "ours"}
	alone, paused, theirs := cloudMachine("alone", "small"), cloudMachine("paused", "small"), cloudMachine("theirs", "small")
	alone.SetLabels(ours)
	paused.SetLabels(ours)
	paused.SetAnnotations(map[string]string{contract.PausedAnnotation: ""})
	w.Create(alone, paused, theirs)
	c := w.says(alone, contract.ConditionReady, inframachine.ReasonWaitingForMachine)
	require.Contains(t, c.Message, "owner reference")
	w.says(paused, contract.ConditionPaused, contract.ReasonPaused)
	w.isQuiet()
	for _, obj := range []*unstructured.Unstructured{alone, paused, theirs} {
		require.Empty(t, w.Get(obj).GetFinalizers(), obj.GetName())
	}
	require.Nil(t, w.Get(theirs).Object["status"])
	require.Zero(t, w.cloud.Calls(provider.OpValidate))
	w.Remove(alone)
}

func TestAnInstanceWaitsForTheInfrastructureOfItsCluster(t *testing.T) {
	w := newWorld(t, worldOptions{clusters: true})
	cluster := fake.Cluster("demo")
	w.Create(cluster)
	m, infra := w.machineOf("m1", "small")
	w.says(infra, contract.ConditionReady, inframachine.ReasonWaitingForCluster)
	require.Zero(t, w.cloud.Calls(provider.OpCreate))
	fresh := w.Get(cluster)
	require.NoError(t, unstructured.SetNestedField(fresh.Object, true, "status", "initialization", "infrastructureProvisioned"))
	require.NoError(t, unstructured.SetNestedField(fresh.Object, true, "status", "initialization", "controlPlaneInitialized"))
	require.NoError(t, w.Client.Status().Update(t.Context(), fresh))
	w.reaches(m, string(phases.Running))
}
