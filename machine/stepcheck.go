package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/machinist-dev/machinist/contract/pass"
)

// validateSteps reports all errors in a list of steps.
func validateSteps(steps []Step) error {
	err := pass.CheckSafety(steps, Steps(), "Machine", pass.Safety{
		Keep: StepFinalizer, Release: StepRemoveFinalizer, Harmless: []string{StepPaused, StepOwners, StepConditions, StepPhase},
	})
	return errors.Join(err, validateNeeds(steps))
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
		i := pass.Position(steps, rule.step, pass.InDeletion)
		if i < 0 || slices.ContainsFunc(steps[:i], func(s Step) bool {
			return s.On&pass.InDeletion != 0 && (s.Name == rule.needs || !isStandard(s.Name))
		}) {
			continue
		}
		errs = append(errs, fmt.Errorf("step %s needs a step in front of it that %s in InDeletion, as %s does: keep that, or remove %s too",
			rule.step, rule.why, rule.needs, rule.step))
	}
	return errors.Join(errs...)
}

// isStandard reports whether Steps has a step of the name.
func isStandard(name string) bool {
	return slices.ContainsFunc(Steps(), func(s Step) bool { return s.Name == name })
}
