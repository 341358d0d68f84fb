package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"slices"
	"time"
)

// Life selects objects that are not being deleted, objects that are being deleted, or both, for which a step runs.
type Life uint8

// Values of Life.
const (
	InRunning Life = 1 << iota
	InDeletion
	InBoth = InRunning | InDeletion
)

// Result defines how a pass continues after a step.
type Result struct {
	// RequeueAfter requests another pass; zero requests none. The shortest of all steps wins.
	RequeueAfter time.Duration
	// Stop skips the steps behind this one, except the closing ones.
	Stop bool
	// Checkpoint ends the pass like Stop, and requires that its decisions, including status and conditions, are written before any other
	// action: the next pass starts from the stored object. It has no effect when there is nothing to write, because the object already has all
	// values. Steps that are ObjectOnly run nevertheless.
	Checkpoint bool
}

// StepFunc is the function of a step. P is the Scope of its kind, such as *machine.Scope, which it reads and changes. It is called in every
// pass that the step's Life includes, from several goroutines for different objects, even after it has done its work: a step with a
// one-time action must check whether that action already ran. An error is retried with back-off.
type StepFunc[P any] = func(context.Context, P) (Result, error)

// Step is one part of a reconciler, with a name.
type Step[P any] struct {
	Name string
	On   Life
	// Closing steps run at the end of every pass, even if an earlier step stopped it or failed.
	Closing bool
	// ObjectOnly steps decide about the object only and change nothing else. They run also in a pass that a checkpoint has ended, so
	// that their decisions are part of the same write; a pass that was stopped skips them too.
	ObjectOnly bool
	Run        StepFunc[P]

	standard bool
	wrong    error // of a change that could not be made; such an entry is not a step
}

// Standard marks steps as those of the package that returns them, and returns the slice. IsStandard distinguishes them from replacements.
func Standard[P any](steps []Step[P]) Steps[P] {
	for i := range steps {
		steps[i].standard = true
	}
	return steps
}

// IsStandard reports whether a step is one of the package that returned it. Setting its Run to a function that calls the former one, as
// for a trace, keeps it standard; to change what it does, use Replace.
func (s *Step[P]) IsStandard() bool { return s.standard }

// HasStandard reports whether a list has the named step unchanged.
func HasStandard[P any](steps []Step[P], name string) bool {
	return slices.ContainsFunc(steps, func(s Step[P]) bool { return s.Name == name && s.standard })
}

// ErrNoStep matches the error for a name that is not in the list of steps.
var ErrNoStep = errors.New("no such step")

// Steps are the steps of a pass, in order. A method returns a changed copy, and never fails: the copy contains the error of the change, and
// New of the kind's package returns it. The error matches ErrNoStep for a name that is not in the list.
type Steps[P any] []Step[P]

// InsertBefore returns the steps with another step before the named one.
func (all Steps[P]) InsertBefore(name string, step Step[P]) Steps[P] {
	return all.changed(name, 0, 0, step)
}

// InsertAfter returns the steps with another step behind the named one.
func (all Steps[P]) InsertAfter(name string, step Step[P]) Steps[P] {
	return all.changed(name, 1, 0, step)
}

// Replace returns the steps with another step in place of the named one.
func (all Steps[P]) Replace(name string, step Step[P]) Steps[P] { return all.changed(name, 0, 1, step) }

// Remove returns the steps without the named step. New of the kind's package rejects the list if it is not safe without the step.
func (all Steps[P]) Remove(name string) Steps[P] { return all.changed(name, 0, 1) }

// changed replaces a number of steps, the first of which is at an offset behind the named step.
func (all Steps[P]) changed(name string, behind, removed int, with ...Step[P]) Steps[P] {
	at := Position(all, name, InBoth)
	if at >= 0 {
		return slices.Replace(slices.Clone(all), at+behind, at+behind+removed, with...)
	}
	return Wrong(all, fmt.Errorf("%w: %q", ErrNoStep, name))
}

// Wrong returns the steps with an error that New of the kind's package returns.
func Wrong[P any](all Steps[P], err error) Steps[P] {
	return append(slices.Clone(all), Step[P]{wrong: err})
}

// Position returns the position of the step with a name that runs in a Life, or -1.
func Position[P any](steps []Step[P], name string, life Life) int {
	return slices.IndexFunc(steps, func(s Step[P]) bool {
		return s.Name == name && s.wrong == nil && (s.On&life != 0 || life == InBoth)
	})
}

// CheckSteps returns all errors in a list of steps: changes that could not be made, steps without a name, function or Life, duplicates, and
// steps of the standard list in another order. The order makes a pass safe: nothing else is changed before the finalizer is stored and the
// object is known not to be paused.
func CheckSteps[P any](steps, standard []Step[P]) error {
	var errs []error
	seen := map[string]bool{}
	for i, s := range steps {
		switch {
		case s.wrong != nil:
			errs = append(errs, s.wrong)
		case s.Name == "":
			errs = append(errs, fmt.Errorf("step %d: a step needs a name and a function", i))
		case s.Run == nil:
			errs = append(errs, fmt.Errorf("step %s: a step needs a name and a function, and Run is nil", s.Name))
		case s.On&InBoth == 0:
			errs = append(errs, fmt.Errorf("step %s never runs: set On", s.Name))
		case seen[s.Name]:
			errs = append(errs, fmt.Errorf("duplicate step %q", s.Name))
		}
		seen[s.Name] = true
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var before string
	last := -1
	for _, s := range steps {
		i := Position(standard, s.Name, InBoth)
		if i >= 0 && i < last {
			errs = append(errs, fmt.Errorf("step %s is after %s: keep the steps of Steps in their order", s.Name, before))
		}
		if i > last {
			last, before = i, s.Name
		}
	}
	return errors.Join(errs...)
}

// RunFunc executes one step, for example with its duration measured.
type RunFunc[P any] = func(context.Context, *Step[P], P) (Result, error)

// RunSteps executes steps with run; nil calls their functions. For an object that is not being deleted, a failed step does not stop the
// later ones, because they handle other objects; in a deletion it does, because the order of the steps makes it safe. A checkpoint without
// anything to write has no effect.
func RunSteps[S, U any, P Embeds[S, U]](ctx context.Context, steps []Step[P], p P, run RunFunc[P]) (Result, error) {
	s, life := p.self(), InRunning
	deleting := s.Deleting()
	if deleting {
		life = InDeletion
	}
	if run == nil {
		run = func(ctx context.Context, step *Step[P], p P) (Result, error) { return step.Run(ctx, p) }
	}
	var total Result
	var errs []error
	for i := range steps {
		step := &steps[i]
		stopped := total.Stop || (total.Checkpoint && !step.ObjectOnly) || (deleting && len(errs) > 0)
		if step.On&life == 0 || (stopped && !step.Closing) {
			continue
		}
		region := trace.StartRegion(ctx, step.Name)
		result, err := run(ctx, step, p)
		region.End()
		result.Checkpoint = result.Checkpoint && s.hasDecided()
		s.frame.Options.Metrics.ran(step.Name, result, err)
		if err != nil {
			errs = append(errs, fmt.Errorf("step %s: %w", step.Name, err))
		}
		total.RequeueAfter = Soonest(total.RequeueAfter, result.RequeueAfter)
		total.Stop = total.Stop || result.Stop
		total.Checkpoint = total.Checkpoint || result.Checkpoint
	}
	s.Requeue(total.RequeueAfter)
	s.checkpoint = total.Checkpoint
	return total, errors.Join(errs...)
}

// Soonest returns the shorter of two durations; zero and less mean none.
func Soonest(a, b time.Duration) time.Duration {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// Safety defines which lists of steps are safe for a kind.
type Safety struct {
	// Keep is the step that stores the finalizer, and Release the one that removes it.
	Keep, Release string
	// Harmless are other standard steps that change no other object.
	Harmless []string
	// Needs are the steps that are not safe without another step.
	Needs []Need
}

// Need means that a step is not safe, or waits forever, unless another one precedes it in the same Life. OrOther: a step of the embedder
// may do the same under another name.
type Need struct {
	Step, Needs, Why string
	OrOther          bool
}

// CheckSafety returns all errors in a list of steps: those of CheckSteps, a missing finalizer, steps that would run after it was removed,
// and steps without the steps that they need. A step counts by its name, so each may be replaced. kind names the objects in errors.
func CheckSafety[P any](steps, standard []Step[P], kind string, rules Safety) error {
	if err := CheckSteps(steps, standard); err != nil {
		return err
	}
	return errors.Join(checkFinalizer(steps, standard, kind, rules), checkNeeds(steps, standard, rules.Needs))
}

// checkFinalizer checks that the object is retained until steps that change other objects are done.
func checkFinalizer[P any](steps, standard []Step[P], kind string, rules Safety) error {
	changes := slices.ContainsFunc(steps, func(s Step[P]) bool {
		harmless := s.Name == rules.Keep || s.Name == rules.Release || slices.Contains(rules.Harmless, s.Name)
		return !harmless && Position(standard, s.Name, InBoth) >= 0
	})
	keeps, releases := Position(steps, rules.Keep, InRunning), Position(steps, rules.Release, InDeletion)
	var errs []error
	if changes && keeps < 0 {
		errs = append(errs, fmt.Errorf("no step %s in InRunning: a %s could vanish and leave behind what belongs to it: keep the step",
			rules.Keep, kind))
	}
	if releases < 0 && (changes || keeps >= 0) {
		errs = append(errs, fmt.Errorf("no step %s in InDeletion: a %s would stay for ever: keep the step", rules.Release, kind))
	}
	for i, s := range steps {
		if releases >= 0 && i > releases && s.On&InDeletion != 0 && !s.Closing {
			errs = append(errs, fmt.Errorf("step %s is after %s, and the %s may be gone before it is done: put it in front, or set Closing",
				s.Name, rules.Release, kind))
		}
	}
	return errors.Join(errs...)
}

func checkNeeds[P any](steps, standard []Step[P], needs []Need) error {
	var errs []error
	for _, need := range needs {
		i := Position(steps, need.Step, InBoth)
		if i < 0 || slices.ContainsFunc(steps[:i], func(s Step[P]) bool {
			return steps[i].On&^s.On == 0 && (s.Name == need.Needs || need.OrOther && Position(standard, s.Name, InBoth) < 0)
		}) {
			continue
		}
		errs = append(errs, fmt.Errorf("step %s needs step %s in front of it, or %s: keep it, or remove %s too",
			need.Step, need.Needs, need.Why, need.Step))
	}
	return errors.Join(errs...)
}
