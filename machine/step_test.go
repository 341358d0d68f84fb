package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStepsRunInOrderAndClosingOnesAlways(t *testing.T) {
	boom := errors.New("boom")
	var ran []string
	step := func(name string, on Life, result Result, err error) Step {
		return Step{Name: name, On: on, Run: func(context.Context, *Scope) (Result, error) {
			ran = append(ran, name)
			return result, err
		}}
	}
	closing := step("closing", InBoth, Result{}, nil)
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
			steps: []Step{step("a", InRunning, Result{}, nil), step("b", InDeletion, Result{}, nil), closing},
			ran:   []string{"a", "closing"},
		},
		"the soonest requeue wins": {
			steps: []Step{
				step("a", InBoth, Result{RequeueAfter: time.Minute}, nil), step("b", InBoth, Result{RequeueAfter: time.Second}, nil),
				step("c", InBoth, Result{}, nil),
			},
			ran: []string{"a", "b", "c"}, result: Result{RequeueAfter: time.Second},
		},
		"a stop skips the rest": {
			steps: []Step{step("a", InBoth, Result{Stop: true}, nil), step("b", InBoth, Result{}, nil), closing},
			ran:   []string{"a", "closing"}, result: Result{Stop: true},
		},
		"a checkpoint skips the rest": {
			steps: []Step{step("a", InBoth, Result{Checkpoint: true}, nil), step("b", InBoth, Result{}, nil), closing},
			ran:   []string{"a", "closing"}, result: Result{Checkpoint: true},
		},
		"while it lives, one failure does not keep the others": {
			steps: []Step{step("a", InRunning, Result{}, boom), step("b", InRunning, Result{}, nil), closing},
			ran:   []string{"a", "b", "closing"}, err: boom,
		},
		"in a deletion, order is safety": {
			deleting: true,
			steps:    []Step{step("a", InDeletion, Result{}, boom), step("b", InDeletion, Result{}, nil), closing},
			ran:      []string{"a", "closing"}, err: boom,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ran = nil
			s := &Scope{}
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
	err := validateSteps([]Step{{}, {Name: "never", Run: do}, {Name: "twice", On: InBoth, Run: do}, {Name: "twice", On: InBoth, Run: do}})
	want := "step 0: a step needs a name and a function\nstep never never runs: set On\nstep twice stands there twice"
	if err == nil || err.Error() != want {
		t.Errorf("want:\n%s\ngot:\n%v", want, err)
	}
	if err := validateSteps(Steps()); err != nil {
		t.Errorf("the default steps are refused: %v", err)
	}
	err = validateSteps([]Step{{Name: "idle", On: InBoth}})
	if want := "step idle: a step needs a name and a function, and Run is nil"; err == nil || err.Error() != want {
		t.Errorf("want %s, got %v", want, err)
	}
	_, err = InsertBefore([]Step{{Name: "one"}, {Name: "two"}}, "tow", Step{})
	if want := `no such step: "tow"; there are one, two`; err == nil || err.Error() != want {
		t.Errorf("want %s, got %v", want, err)
	}
	if _, err := Replace(Steps(), "nope", Step{}); !errors.Is(err, ErrNoStep) {
		t.Errorf("want ErrNoStep, got %v", err)
	}
	if _, err := Remove(Steps(), "nope"); !errors.Is(err, ErrNoStep) {
		t.Errorf("want ErrNoStep, got %v", err)
	}
}

func TestStepsThatAreRemovedSayNothing(t *testing.T) {
	all := Steps()
	if diff := cmp.Diff([]string(nil), unsaid(all)); diff != "" {
		t.Errorf("the default steps leave open (-want +got):\n%s", diff)
	}
	some := all
	for _, name := range []string{StepBootstrap, StepNode} {
		var err error
		if some, err = Remove(some, name); err != nil {
			t.Fatal(err)
		}
	}
	if len(some) != len(all)-2 || all[3].Name != StepBootstrap {
		t.Errorf("want two steps fewer, and the list that was passed in as it was: %d of %d", len(some), len(all))
	}
	if diff := cmp.Diff([]string{ConditionBootstrapConfigReady, ConditionNodeReady, ConditionNodeHealthy}, unsaid(some)); diff != "" {
		t.Errorf("left open (-want +got):\n%s", diff)
	}
}
