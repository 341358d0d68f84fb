package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
)

func TestStatusWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		second func(*scope) engine.Result
		after  time.Duration
		writes int
		again  time.Duration
	}{
		"what is stored is not written": {second: func(s *scope) engine.Result {
			s.Update.Phase = contract.SetTo("first")
			return engine.Result{}
		}},
		"a difference waits":              {second: phase("second"), after: 400 * time.Millisecond, again: 600 * time.Millisecond},
		"until the second is over":        {second: phase("second"), after: time.Second, writes: 1},
		"a clock set back delays nothing": {second: phase("second"), after: -time.Hour, writes: 1},
		"a checkpoint does not wait": {writes: 1, second: func(s *scope) engine.Result {
			s.Update.Phase = contract.SetTo("second")
			return engine.Result{Checkpoint: true}
		}},
		"a checkpoint without a difference writes nothing": {second: func(*scope) engine.Result { return engine.Result{Checkpoint: true} }},
		"becoming ready does not wait": {writes: 1, second: func(s *scope) engine.Result {
			s.Assert(engine.Condition(contract.ConditionReady, metav1.ConditionTrue, "Ready", ""))
			return engine.Result{}
		}},
		"another reason for not being ready waits": {again: time.Second, second: func(s *scope) engine.Result {
			s.Assert(engine.Condition(contract.ConditionReady, metav1.ConditionFalse, "Other", ""))
			return engine.Result{}
		}},
		"metadata does not wait": {writes: 1, again: time.Second, second: func(s *scope) engine.Result {
			s.SetLabel("example.com/label", "value")
			s.Update.Phase = contract.SetTo("second")
			return engine.Result{}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
			run := func(s *scope) engine.Result {
				s.Assert(engine.Condition(contract.ConditionReady, metav1.ConditionFalse, "First", ""))
				return phase("first")(s)
			}
			b := newBench(t, true, step{Name: "own", On: engine.InRunning, Run: func(_ context.Context, s *scope) (engine.Result, error) {
				return run(s), nil
			}})
			b.frame.Options.Clock = clock
			u := b.create()
			_, err := b.pass(u)
			require.NoError(t, err)
			require.Equal(t, 1, b.writes(), "the first status does not wait")

			run = tc.second
			clock.SetTime(clock.Now().Add(tc.after))
			result, err := b.pass(u)
			require.NoError(t, err)
			require.Equal(t, 1+tc.writes, b.writes())
			require.Equal(t, tc.again, result.RequeueAfter)
		})
	}
}

func phase(name string) func(*scope) engine.Result {
	return func(s *scope) engine.Result {
		s.Update.Phase = contract.SetTo(name)
		return engine.Result{}
	}
}

func TestAForgottenObjectDoesNotWait(t *testing.T) {
	name := "first"
	b := newBench(t, true, step{Name: "own", On: engine.InBoth, Run: func(_ context.Context, s *scope) (engine.Result, error) {
		return phase(name)(s), nil
	}})
	b.frame.Options.Clock = clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	u := b.create()
	_, err := b.pass(u)
	require.NoError(t, err)

	excluded := u.DeepCopy()
	excluded.SetLabels(nil)
	_, err = b.reconciler().ReconcileObject(t.Context(), excluded)
	require.NoError(t, err)
	name = "second"
	_, err = b.pass(u)
	require.NoError(t, err)
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	written, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	require.Equal(t, "second", written)
}

// An API server answers so about an object whose CRD has no status subresource, and a webhook may. Silence would mean to report nothing.
func TestNotFoundAboutAnObjectThatExistsIsAnError(t *testing.T) {
	for name, gone := range map[string]bool{"the object exists": false, "the object is gone": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, true, standard()...)
			b.view = cluster()
			u := b.create()
			answers := interceptor.NewClient(b.store.Client(), interceptor.Funcs{
				SubResourcePatch: func(
					ctx context.Context, to client.Client, _ string, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption,
				) error {
					if gone {
						live := u.DeepCopy()
						require.NoError(t, to.Get(ctx, client.ObjectKeyFromObject(u), live))
						live.SetFinalizers(nil)
						require.NoError(t, to.Update(ctx, live))
						require.NoError(t, to.Delete(ctx, live))
					}
					return apierrors.NewNotFound(schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machinedeployments"}, obj.GetName())
				},
			})
			b.frame.Writer = patch.NewWriter(answers, b.frame.Options.Clock)
			_, err := b.pass(u)
			if gone {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "its CRD has no status subresource")
		})
	}
}

// Where status is no subresource, each write increments the generation: conditions with it would be written for ever.
func TestConditionsOfAMachineAreWrittenOnce(t *testing.T) {
	for name, subresource := range map[string]bool{"a subresource": true, "no subresource": false} {
		t.Run(name, func(t *testing.T) {
			kinds, err := contract.ClusterAPI(contract.V1Beta2)
			require.NoError(t, err)
			kind := kinds.Machine
			kind.StatusSubresource = subresource
			store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: kind.GVK, Status: subresource}}})
			machine := fake.Machine("a")
			machine.SetGroupVersionKind(kind.GVK)
			require.NoError(t, store.Client().Create(t.Context(), machine))
			writer := patch.NewWriter(store.Client(), clocktesting.NewFakePassiveClock(time.Now()))
			want := []metav1.Condition{engine.Condition(contract.ConditionUpToDate, metav1.ConditionTrue, "R", "")}
			obj := contract.Object(machine)
			write := func(set []metav1.Condition, removed ...string) (same bool) {
				var have contract.MachineState
				require.NoError(t, kind.Adapter.Read(obj, &have))
				written, err := engine.WriteConditions(t.Context(), writer, kind, obj, &have, set, removed, time.Now())
				require.NoError(t, err)
				same = written == obj
				obj = written
				return same
			}
			require.False(t, write(want))
			require.True(t, write(want), "it is stored")
			require.False(t, write(nil, contract.ConditionUpToDate))
			require.True(t, write(nil, contract.ConditionUpToDate), "it is removed")
		})
	}
}
