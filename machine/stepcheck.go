package machine

import (
	"errors"
	"fmt"
	"slices"
)

// validateSteps reports all errors in a list of steps.
func validateSteps(steps []Step) error {
	var errs []error
	seen := map[string]bool{}
	for i, s := range steps {
		switch {
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
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(validateFinalizer(steps), validateOrder(steps), validateNeeds(steps))
}

// validateFinalizer: a step that creates or deletes other objects needs the Machine to stay until that is done.
func validateFinalizer(steps []Step) error {
	standing := []string{StepFinalizer, StepPaused, StepOwners, StepConditions, StepPhase}
	acts := slices.ContainsFunc(steps, func(s Step) bool { return isStandard(s.Name) && !slices.Contains(standing, s.Name) })
	keeps, letsGo := at(steps, StepFinalizer, InRunning), at(steps, StepRemoveFinalizer, InDeletion)
	var errs []error
	if acts && keeps < 0 {
		errs = append(errs, fmt.Errorf(
			"no step %s in InRunning: a Machine could vanish at once and leave its machine behind: keep the step", StepFinalizer))
	}
	if letsGo < 0 && (acts || keeps >= 0) {
		errs = append(errs, fmt.Errorf("no step %s in InDeletion: a Machine would stay for ever: keep the step", StepRemoveFinalizer))
	}
	for i, s := range steps {
		if letsGo >= 0 && i > letsGo && s.On&InDeletion != 0 && !s.Closing {
			errs = append(errs, fmt.Errorf("step %s stands behind %s, and the Machine may be gone before it is done: "+
				"put it in front, or set Closing", s.Name, StepRemoveFinalizer))
		}
	}
	return errors.Join(errs...)
}

// validateOrder: the steps of this package keep their order, so that no other object is changed before the finalizer is stored and the
// Machine is known not to be paused, and nothing is deleted before the drain.
func validateOrder(steps []Step) error {
	var errs []error
	var before string
	last := -1
	for _, s := range steps {
		i := slices.IndexFunc(Steps(), func(standard Step) bool { return standard.Name == s.Name })
		if i >= 0 && i < last {
			errs = append(errs, fmt.Errorf("step %s stands behind %s: keep the steps of Steps in their order", s.Name, before))
		}
		if i > last {
			last, before = i, s.Name
		}
	}
	return errors.Join(errs...)
}

// validateNeeds: a step of a deletion that uses the result of another step waits for ever without it. A step of the embedder may have the
// same effect under another name.
func validateNeeds(steps []Step) error {
	var errs []error
	for _, rule := range []struct{ step, needs, why string }{
		{StepDrain, StepNode, "looks the Node up"},
		{StepVolumes, StepNode, "looks the Node up"},
		{StepVolumes, StepDrain, "frees the volumes"},
		{StepDeleteNode, StepNode, "looks the Node up"},
	} {
		i := at(steps, rule.step, InDeletion)
		if i < 0 || slices.ContainsFunc(steps[:i], func(s Step) bool {
			return s.On&InDeletion != 0 && (s.Name == rule.needs || !isStandard(s.Name))
		}) {
			continue
		}
		errs = append(errs, fmt.Errorf("step %s needs a step in front of it that %s in InDeletion, as %s does: keep that, or remove %s too",
			rule.step, rule.why, rule.needs, rule.step))
	}
	return errors.Join(errs...)
}

// at returns the position of the step with a name and Life, -1 without one.
func at(steps []Step, name string, life Life) int {
	return slices.IndexFunc(steps, func(s Step) bool { return s.Name == name && s.On&life != 0 })
}

// isOurs reports whether a list has a step as Steps returns it.
func isOurs(steps []Step, name string) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Name == name && s.ours })
}

// isStandard reports whether Steps has a step of the name.
func isStandard(name string) bool {
	return slices.ContainsFunc(Steps(), func(s Step) bool { return s.Name == name })
}
