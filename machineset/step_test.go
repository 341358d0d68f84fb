package machineset_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset"
)

func TestAListOfStepsThatIsNotSafeForASetIsRefused(t *testing.T) {
	t.Parallel()
	run := func(context.Context, *machineset.Scope) (machineset.Result, error) { return machineset.Result{}, nil }
	without := func(name string) []machineset.Step {
		steps := machineset.Steps().Remove(name)
		return steps
	}
	replaced := func(name string) []machineset.Step {
		steps := machineset.Steps().Replace(name, machineset.Step{Name: name, On: engine.InBoth, Run: run})
		return steps
	}
	swapped := machineset.Steps()
	swapped[5], swapped[6] = swapped[6], swapped[5]
	for name, tc := range map[string]struct {
		steps []machineset.Step
		want  string
	}{
		"the default":                 {},
		"no pause":                    {without(machineset.StepPaused), "step machines needs step paused in front of it"},
		"no finalizer":                {without(machineset.StepFinalizer), "no step finalizer in InRunning"},
		"no Machines":                 {without(machineset.StepMachines), "step scale needs step machines in front of it"},
		"no templates":                {without(machineset.StepTemplates), "step scale needs step templates in front of it"},
		"no holds":                    {steps: without(machineset.StepHolds)},
		"nothing in place":            {steps: without(machineset.StepSync)},
		"no scaling":                  {without(machineset.StepScale), "the Machines of a set in deletion stay"},
		"no removal of the finalizer": {without(machineset.StepRemoveFinalizer), "no step remove-finalizer in InDeletion"},
		"no status":                   {steps: without(machineset.StepStatus)},
		"a pause of one's own":        {steps: replaced(machineset.StepPaused)},
		"Machines of one's own":       {replaced(machineset.StepMachines), "step machines is replaced, and step scale needs what it reads"},
		"templates of one's own":      {replaced(machineset.StepTemplates), "step templates is replaced, and step scale needs what it reads"},
		"a scaling of one's own":      {steps: replaced(machineset.StepScale)},
		"another order":               {swapped, "step sync is after scale"},
		"a step behind the end of all": {append(machineset.Steps(), machineset.Step{Name: "own", On: engine.InDeletion, Run: run}),
			"step own is after"},
		"a step that the list has twice": {append(machineset.Steps(), machineset.Steps()[0]), `duplicate step "paused"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := machineset.New(kindsOf(t), engine.Ports{}, machineset.Options{Steps: tc.steps})
			if tc.want == "" {
				require.NotContains(t, err.Error(), "step", "the ports alone are missing")
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// ownStep is a step of an embedder in front of StepScale.
func ownStep(t *testing.T, run engine.StepFunc[*machineset.Scope]) machineset.Options {
	t.Helper()
	steps := machineset.Steps().InsertBefore(machineset.StepScale, machineset.Step{Name: "own", On: engine.InBoth, Run: run})
	return machineset.Options{Steps: steps, Options: engine.Options{StatusDelay: -1}}
}

func noPorts(ctrl.Manager, *engine.Ports) {}

func TestAStepOfAnEmbedderSeesTheMachinesOfASetAndWritesWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(ownStep(t, func(_ context.Context, s *machineset.Scope) (machineset.Result, error) {
		machines, known := s.Machines()
		if !known {
			return machineset.Result{}, errors.New("the Machines have not been read")
		}
		if len(machines) == 2 {
			s.ChangeAnnotation("example.com/complete", contract.SetTo("yes"))
			s.Assert(engine.Condition("Complete", metav1.ConditionTrue, "Complete", "two Machines"))
		}
		return machineset.Result{}, nil
	}))
	set := w.set("workers", 2)
	w.Create(set)
	w.conditionSays(set, "Complete", "two Machines")
	w.has(set, 2)
	w.until("have the annotation", func() bool { return w.Get(set).GetAnnotations()["example.com/complete"] == "yes" })
}

func TestAStepOfAnEmbedderKeepsASetFromCreatingAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	w.run(ownStep(t, func(_ context.Context, s *machineset.Scope) (machineset.Result, error) {
		s.Hold("QuotaExceeded", "the quota of the team is used up")
		return machineset.Result{}, nil
	}))
	set := w.set("workers", 2)
	w.Create(set)
	w.conditionSays(set, contract.ConditionScalingUp, "* the quota of the team is used up")
	require.Empty(t, w.machines())
}

func TestAStepOfAnEmbedderThatStopsThePassKeepsASetFromScaling(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	r := w.reconcilerWith(ownStep(t, func(context.Context, *machineset.Scope) (machineset.Result, error) {
		return machineset.Result{Stop: true}, nil
	}), noPorts)
	set := w.set("workers", 2)
	w.Create(set)
	w.passesUntil(r, set, func(u *unstructured.Unstructured) bool {
		_, found, _ := unstructured.NestedInt64(u.Object, "status", "replicas")
		return found
	})
	require.Contains(t, w.Get(set).GetFinalizers(), machineset.Finalizer, "the steps in front of it ran")
	require.Empty(t, w.machines())

	require.NoError(t, w.Client.Delete(t.Context(), w.Get(set)))
	w.passesUntil(r, set, func(u *unstructured.Unstructured) bool {
		return w.condition(u, contract.ConditionDeleting).Status == metav1.ConditionTrue
	})
	require.Contains(t, w.Get(set).GetFinalizers(), machineset.Finalizer, "in a deletion too")
}

// passesUntil makes passes until a set is as it is to be.
func (w *world) passesUntil(r *machineset.Reconciler, set *unstructured.Unstructured, is func(*unstructured.Unstructured) bool) {
	w.t.Helper()
	w.Eventually("be as it is to be", func() string {
		if _, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
			return err.Error()
		}
		if !is(w.Get(set)) {
			return w.describe(set)
		}
		return ""
	})
}

func TestAStepOfAnEmbedderThatFailsDelaysADeletionAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	r := w.reconcilerWith(ownStep(t, func(context.Context, *machineset.Scope) (machineset.Result, error) {
		return machineset.Result{}, errors.New("no inventory")
	}), noPorts)
	set := w.set("workers", 1)
	w.Create(set)
	w.fails(r, set, "step own: no inventory")
	w.until("have a Machine", func() bool {
		w.fails(r, set, "step own: no inventory")
		return len(w.machines()) == 1
	})
	require.Zero(t, testenv.Number(w.Get(set), "status", "observedGeneration"), "the set was not evaluated as a whole")

	require.NoError(t, w.Client.Delete(t.Context(), w.Get(set)))
	w.until("be known to be in deletion", func() bool {
		w.fails(r, set, "step own: no inventory")
		return w.condition(set, contract.ConditionDeleting).Status == metav1.ConditionTrue
	})
	require.Nil(t, w.machines()[0].GetDeletionTimestamp(), "a deletion does not go on behind a step that failed")
}
