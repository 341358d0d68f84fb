package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
)

// fight is a loop of passes over an object, in which another writer undoes what each pass writes.
type fight struct {
	*bench

	clock *clocktesting.FakePassiveClock
	u     *unstructured.Unstructured
	r     reconciler
	sent  int // writes of metadata and spec
}

func newFight(t *testing.T, run func(*scope)) *fight {
	t.Helper()
	f := &fight{clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))}
	f.bench = newBench(t, true, step{Name: "own", On: engine.InRunning, Run: func(_ context.Context, s *scope) (engine.Result, error) {
		run(s)
		return engine.Result{}, nil
	}})
	counts := interceptor.NewClient(f.store.Client(), interceptor.Funcs{
		Patch: func(ctx context.Context, to client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if len(o) == 0 {
				f.sent++
			}
			return to.Patch(ctx, obj, p, o...)
		},
	})
	f.frame.Options.Clock, f.frame.Writer = f.clock, patch.NewWriter(counts, f.clock)
	f.u, f.r = f.create(), f.reconciler()
	applied := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	applied.SetGroupVersionKind(f.u.GroupVersionKind())
	applied.SetNamespace(f.u.GetNamespace())
	applied.SetName(f.u.GetName())
	require.NoError(t, f.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("gitops"),
		client.ForceOwnership))
	return f
}

// goesOn makes passes for a time, ten in a second, and undo acts after each. It returns the number of writes.
func (f *fight) goesOn(lasts time.Duration, undo func()) int {
	f.t.Helper()
	before := f.sent
	for range int(10 * lasts.Seconds()) {
		_, err := f.pass()
		require.NoError(f.t, err)
		undo()
		f.clock.SetTime(f.clock.Now().Add(100 * time.Millisecond))
	}
	return f.sent - before
}

func (f *fight) pass() (after time.Duration, err error) {
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKeyFromObject(f.u), f.u))
	result, err := f.r.ReconcileObject(f.t.Context(), f.u)
	return result.RequeueAfter, err
}

func (f *fight) contested() metav1.Condition {
	f.t.Helper()
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKeyFromObject(f.u), f.u))
	var s scope
	require.NoError(f.t, engine.Begin(&s.Scope, f.frame, f.u))
	c, _ := engine.Find(s.Stored, contract.ConditionContested)
	return c
}

// resets returns another writer, which gives the label a value of its own.
func (f *fight) resets(label string) func() {
	body := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+label+`":"theirs"}}}`))
	return func() {
		require.NoError(f.t, f.client.Patch(f.t.Context(), f.u.DeepCopy(), body, client.FieldOwner("other")))
	}
}

func TestContest(t *testing.T) {
	const label = "example.com/label"
	labels := func(s *scope) {
		s.SetLabel(label, "ours")
		s.Update.Phase = contract.SetTo("first")
	}
	nobody := func() {}

	t.Run("what another writer undoes is written ever more rarely, and both are named", func(t *testing.T) {
		f := newFight(t, labels)
		require.Equal(t, 5+2, f.goesOn(4*time.Second, f.resets(label)), "a burst, one after a second, and one after two more")
		c := f.contested()
		require.Equal(t, metav1.ConditionTrue, c.Status)
		require.Equal(t, contract.ReasonWritesUndone, c.Reason)
		require.Equal(t, "metadata.labels["+label+"] of MachineDeployment default/d1 is changed back by other each time that it is written",
			c.Message)
		require.LessOrEqual(t, f.goesOn(10*time.Minute, f.resets(label)), 15, "one a minute at last")
		require.Equal(t, c, f.contested(), "the condition is not written again")
		after, err := f.pass()
		require.NoError(t, err)
		require.InDelta(t, 30, after.Seconds(), 30, "no pass is lost")
		require.Positive(t, after)
	})
	t.Run("the limit ends soon after the fight", func(t *testing.T) {
		f := newFight(t, labels)
		f.goesOn(10*time.Second, f.resets(label))
		f.goesOn(30*time.Second, nobody)
		require.Equal(t, metav1.ConditionFalse, f.contested().Status)
		require.Equal(t, "ours", f.u.GetLabels()[label])
		f.goesOn(2*time.Minute, nobody)
		require.Equal(t, 5, f.goesOn(600*time.Millisecond, f.resets(label)), "a new fight begins with a burst")
	})
	t.Run("a status that depends on metadata which is not kept is not written", func(t *testing.T) {
		phase := "first"
		f := newFight(t, func(s *scope) {
			s.SetLabel(label, "ours")
			s.Update.Phase = contract.SetTo(phase)
		})
		f.goesOn(2*time.Second, f.resets(label))
		phase = "second"
		require.Zero(t, f.goesOn(300*time.Millisecond, f.resets(label)))
		require.NotContains(t, strings.Join(f.phases(), " "), "second")
	})
	t.Run("a pass that comes earlier for another reason is not put off", func(t *testing.T) {
		f := newFight(t, func(s *scope) {
			s.SetLabel(label, "ours")
			s.Requeue(300 * time.Millisecond)
		})
		f.goesOn(10*time.Second, f.resets(label))
		after, err := f.pass()
		require.NoError(t, err)
		require.Equal(t, 300*time.Millisecond, after)
	})
	t.Run("a field of the status that another writer resets is named too", func(t *testing.T) {
		f := newFight(t, func(s *scope) { s.Update.Phase = contract.SetTo("ours") })
		resets := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"theirs"}}`))
		f.goesOn(time.Minute, func() {
			require.NoError(t, f.client.Status().Patch(t.Context(), f.u.DeepCopy(), resets, client.FieldOwner("other")))
		})
		c := f.contested()
		require.Equal(t, metav1.ConditionTrue, c.Status)
		require.Equal(t, "status.phase of MachineDeployment default/d1 is changed back by other each time that it is written", c.Message)
	})
	t.Run("a status that another writer resets is written ever more rarely", func(t *testing.T) {
		f := newFight(t, func(s *scope) {
			s.Assert(engine.Condition(contract.ConditionReady, metav1.ConditionTrue, "Ready", ""))
		})
		resets := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
		before := f.writes()
		f.goesOn(time.Minute, func() { require.NoError(t, f.client.Status().Patch(t.Context(), f.u.DeepCopy(), resets)) })
		require.LessOrEqual(t, f.writes()-before-600, 25, "600 are the other writer's")
	})
	t.Run("values that alternate are no fight", func(t *testing.T) {
		phase := ""
		f := newFight(t, func(s *scope) {
			phase = map[string]string{"a": "b"}[phase]
			if phase == "" {
				phase = "a"
			}
			s.Update.Phase = contract.SetTo(phase)
		})
		f.goesOn(time.Minute, nobody)
		require.Empty(t, f.contested())
	})
}

func (f *fight) phases() []string {
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKeyFromObject(f.u), f.u))
	phase, _, _ := unstructured.NestedString(f.u.Object, "status", "phase")
	return []string{phase}
}
