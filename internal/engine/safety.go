package engine

import (
	"errors"
	"fmt"
	"slices"
)

// Safety says which lists of steps are safe for a kind.
type Safety struct {
	// Keep is the step that stores the finalizer, and Release the one that removes it.
	Keep, Release string
	// Harmless are the standard steps that change no other object, besides Keep and Release.
	Harmless []string
	// Needs are the steps that are not safe without another one.
	Needs []Need
}

// Need says that a step is not safe, or waits for ever, unless another one precedes it in the same Life. OrOther: a step of the embedder
// may do the same under another name.
type Need struct {
	Step, Needs, Why string
	OrOther          bool
}

// CheckSafety reports all errors in a list of steps: those that CheckSteps reports, a missing finalizer, steps that would run after it was
// removed, and steps without those that they need. A step counts by its name, so each may be replaced. kind names the objects in errors.
func CheckSafety[P any](steps, standard []Step[P], kind string, rules Safety) error {
	if err := CheckSteps(steps, standard); err != nil {
		return err
	}
	return errors.Join(checkFinalizer(steps, standard, kind, rules), checkNeeds(steps, standard, rules.Needs))
}

// checkFinalizer: a step that changes other objects needs the object to stay until that is done.
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
			errs = append(errs, fmt.Errorf("step %s stands behind %s, and the %s may be gone before it is done: put it in front, or set Closing",
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
