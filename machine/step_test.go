package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestStepsRunInOrderAndClosingOnesAlways(t *testing.T) {
	boom := errors.New("boom")
	var ran []string
	step := func(name string, on engine.Life, result Result, err error) Step {
		return Step{Name: name, On: on, Run: func(context.Context, *Scope) (Result, error) {
			ran = append(ran, name)
			return result, err
		}}
	}
	labels := func(name string, result Result, values ...string) Step {
		s := step(name, engine.InBoth, result, nil)
		does := s.Run
		s.Run = func(ctx context.Context, s *Scope) (Result, error) {
			for _, value := range values {
				s.SetLabel("key", value)
			}
			return does(ctx, s)
		}
		return s
	}
	asserts := step("a", engine.InBoth, Result{Checkpoint: true}, nil)
	asserts.Run = func(_ context.Context, s *Scope) (Result, error) {
		s.Assert(engine.Condition("Asserted", metav1.ConditionTrue, "Reason", ""))
		return Result{Checkpoint: true}, nil
	}
	beside := step("beside", engine.InBoth, Result{}, nil)
	beside.ObjectOnly = true
	closing := step("closing", engine.InBoth, Result{}, nil)
	closing.Closing = true
	for name, tc := range map[string]struct {
		reason   string
		deleting bool
		steps    []Step
		ran      []string
		result   Result
		err      error
	}{
		"each in its part of the life": {
			steps: []Step{step("a", engine.InRunning, Result{}, nil), step("b", engine.InDeletion, Result{}, nil), closing},
			ran:   []string{"a", "closing"},
		},
		"the soonest requeue wins": {
			steps: []Step{
				step("a", engine.InBoth, Result{RequeueAfter: time.Minute}, nil), step("b", engine.InBoth, Result{RequeueAfter: time.Second}, nil),
				step("c", engine.InBoth, Result{}, nil),
			},
			ran: []string{"a", "b", "c"}, result: Result{RequeueAfter: time.Second},
		},
		"a stop skips the rest": {
			steps: []Step{step("a", engine.InBoth, Result{Stop: true}, nil), step("b", engine.InBoth, Result{}, nil), closing},
			ran:   []string{"a", "closing"}, result: Result{Stop: true},
		},
		"a checkpoint skips the rest": {
			steps: []Step{labels("a", Result{Checkpoint: true}, "new"), step("b", engine.InBoth, Result{}, nil), closing},
			ran:   []string{"a", "closing"}, result: Result{Checkpoint: true},
		},
		"a checkpoint of conditions skips the rest": {
			steps: []Step{asserts, step("b", engine.InBoth, Result{}, nil), closing},
			ran:   []string{"closing"}, result: Result{Checkpoint: true},
		},
		"a checkpoint without a change is none": {
			steps: []Step{step("a", engine.InBoth, Result{Checkpoint: true}, nil), step("b", engine.InBoth, Result{}, nil), closing},
			ran:   []string{"a", "b", "closing"},
		},
		"nor is one that sets what is there in the end": {
			steps: []Step{labels("a", Result{Checkpoint: true}, "new", "old"), step("b", engine.InBoth, Result{}, nil), closing},
			ran:   []string{"a", "b", "closing"},
		},
		"what decides about the Machine alone is part of a checkpoint": {
			steps: []Step{labels("a", Result{Checkpoint: true}, "new"), step("b", engine.InBoth, Result{}, nil), beside, closing},
			ran:   []string{"a", "beside", "closing"}, result: Result{Checkpoint: true},
		},
		"and not of a pass that was stopped": {
			steps: []Step{step("a", engine.InBoth, Result{Stop: true}, nil), beside, closing},
			ran:   []string{"a", "closing"}, result: Result{Stop: true},
		},
		"while it lives, one failure does not keep the others": {
			steps: []Step{step("a", engine.InRunning, Result{}, boom), step("b", engine.InRunning, Result{}, nil), closing},
			ran:   []string{"a", "b", "closing"}, err: boom,
		},
		"in a deletion, order is safety": {
			deleting: true,
			steps:    []Step{step("a", engine.InDeletion, Result{}, boom), step("b", engine.InDeletion, Result{}, nil), closing},
			ran:      []string{"a", "closing"}, err: boom,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ran = nil
			obj := testKind().New()
			obj.SetLabels(map[string]string{"key": "old"})
			s := attached(&Scope{Scope: base{Object: obj}})
			s.State.Labels = obj.GetLabels()
			if tc.deleting {
				s.State.Deleting = time.Unix(1, 0)
			}
			result, err := run(t.Context(), tc.steps, s)
			if !errors.Is(err, tc.err) {
				t.Errorf("error: want %v, got %v", tc.err, err)
			}
			if diff := cmp.Diff(tc.ran, ran); diff != "" {
				t.Errorf("ran (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.result, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongStepsAreRefusedAllAtOnce(t *testing.T) {
	do := func(context.Context, *Scope) (Result, error) { return Result{}, nil }
	err := validateSteps([]Step{{}, {Name: "never", Run: do}, {Name: "twice", On: engine.InBoth, Run: do},
		{Name: "twice", On: engine.InBoth, Run: do}})
	want := "step 0: a step needs a name and a function\nstep never never runs: set On\nduplicate step \"twice\""
	if err == nil || err.Error() != want {
		t.Errorf("want:\n%s\ngot:\n%v", want, err)
	}
	if err := validateSteps(Steps()); err != nil {
		t.Errorf("the default steps are refused: %v", err)
	}
	err = validateSteps([]Step{{Name: "idle", On: engine.InBoth}})
	if want := "step idle: a step needs a name and a function, and Run is nil"; err == nil || err.Error() != want {
		t.Errorf("want %s, got %v", want, err)
	}
	two := engine.Steps[*Scope]{{Name: "one", On: engine.InBoth, Run: do}, {Name: "two", On: engine.InBoth, Run: do}}
	err = validateSteps(two.InsertBefore("tow", Step{}).Remove("").Replace("one", two[0]))
	if want := "no such step: \"tow\"\nno such step: \"\""; err == nil || err.Error() != want {
		t.Errorf("want %s, got %v", want, err)
	}
	for _, steps := range []engine.Steps[*Scope]{
		Steps().Replace("nope", Step{}), Steps().Remove("nope"), Steps().InsertAfter("nope", Step{}),
	} {
		if err := validateSteps(steps); !errors.Is(err, engine.ErrNoStep) {
			t.Errorf("want engine.ErrNoStep, got %v", err)
		}
	}
}

func TestStepsThatAreRemovedSayNothing(t *testing.T) {
	all := Steps()
	if diff := cmp.Diff([]string(nil), neverSet(all)); diff != "" {
		t.Errorf("the default steps leave open (-want +got):\n%s", diff)
	}
	some := all.Remove(StepBootstrap).Remove(StepNode)
	if len(some) != len(all)-2 || all[3].Name != StepBootstrap {
		t.Errorf("want two steps fewer, and the list that was passed in as it was: %d of %d", len(some), len(all))
	}
	if diff := cmp.Diff([]string{contract.ConditionBootstrapConfigReady, contract.ConditionNodeReady, ConditionNodeHealthy},
		neverSet(some)); diff != "" {
		t.Errorf("left open (-want +got):\n%s", diff)
	}
}

func TestAListOfStepsThatCannotBeSafeIsRefusedWithWhatToDo(t *testing.T) {
	do := func(context.Context, *Scope) (Result, error) { return Result{}, nil }
	without := func(names ...string) []Step {
		return slices.DeleteFunc(Steps(), func(s Step) bool { return slices.Contains(names, s.Name) })
	}
	own := func(on engine.Life) Step { return Step{Name: "own", On: on, Run: do} }
	behind := func(name string, step Step) []Step { return Steps().InsertAfter(name, step) }
	inRunning := func(name string) []Step {
		return Steps().Replace(name, Step{Name: name, On: engine.InRunning, Run: do})
	}
	moved := slices.Insert(without(StepDrain),
		slices.IndexFunc(without(StepDrain), func(s Step) bool { return s.Name == StepDeleteBootstrap }),
		Step{Name: StepDrain, On: engine.InDeletion, Run: do})
	for name, tc := range map[string]struct {
		steps []Step
		says  []string // none: it is accepted
	}{
		"no finalizer":                {without(StepFinalizer), []string{"no step finalizer in InRunning", "keep the step"}},
		"one that nothing takes away": {without(StepRemoveFinalizer), []string{"no step remove-finalizer in InDeletion", "keep the step"}},
		"neither": {without(StepFinalizer, StepRemoveFinalizer),
			[]string{"no step finalizer", "no step remove-finalizer"}},
		"steps of the embedder alone": {[]Step{own(engine.InBoth), {Name: StepPhase, On: engine.InBoth, Run: do}}, nil},
		"none":                        {[]Step{}, nil},
		"behind the end": {behind(StepRemoveFinalizer, own(engine.InBoth)),
			[]string{"step own stands behind remove-finalizer", "put it in front, or set Closing"}},
		"behind the end, of a running one": {behind(StepPhase, own(engine.InRunning)), nil},
		"destroyed before the drain": {moved,
			[]string{"step drain stands behind delete-infrastructure", "keep the steps of Steps in their order"}},
		"a drain without a Node": {without(StepNode, StepVolumes, StepDeleteNode),
			[]string{"step drain needs step node in front of it, or no step looks its Node up in InDeletion"}},
		"volumes without a drain": {without(StepDrain),
			[]string{"step volumes needs step drain in front of it, or no step frees the volumes"}},
		"neither drain nor volumes":          {without(StepDrain, StepVolumes), nil},
		"nothing about Nodes":                {without(StepNode, StepDrain, StepVolumes, StepDeleteNode), nil},
		"a node step for running ones alone": {inRunning(StepNode), []string{"step drain needs", "step volumes needs", "step delete-node needs"}},
		"an infrastructure step for those":   {inRunning(StepInfrastructure), nil},
		"one of the embedder in deletions":   {slices.Insert(without(StepNode), 3, own(engine.InDeletion)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := validateSteps(tc.steps)
			if (err == nil) != (len(tc.says) == 0) {
				t.Fatalf("want %q, got %v", tc.says, err)
			}
			for _, text := range tc.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("want %q in\n%v", text, err)
				}
			}
		})
	}
}
