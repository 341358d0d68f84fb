package inframachine

import (
	"context"

	"github.com/machinist-dev/machinist/internal/engine"
)

// Step is one part of the reconciler of InfraMachines, with a name. pass.Step documents its fields.
type Step = engine.Step[*Scope]

// Result defines how a pass continues after a step.
type Result = engine.Result

// Names of the steps that Steps returns.
const (
	StepPaused          = "paused"
	StepMachine         = "machine"
	StepFinalizer       = "finalizer"
	StepInstance        = "instance"
	StepDeleteInstance  = "delete-instance"
	StepRemoveFinalizer = "remove-finalizer"
)

// Steps returns a new list of the steps of an InfraMachine, in order. Change it with its methods InsertBefore, InsertAfter, Replace and
// Remove, and set Options.Steps. New rejects a list with duplicates, with steps of Steps in another order, or without a step that prevents
// a lost instance or an endless deletion. A step of the same name may replace each of them.
//
//   - StepPaused ends the pass of a paused InfraMachine;
//   - StepMachine reads the owner Machine and ends the pass while there is none; StepFinalizer stores the finalizer;
//   - StepInstance creates or reads the instance, and copies its values;
//   - StepDeleteInstance deletes the instance and waits until it is gone; StepRemoveFinalizer ends the deletion.
func Steps() engine.Steps[*Scope] {
	return engine.Standard([]Step{
		{Name: StepPaused, On: engine.InBoth, ObjectOnly: true, Run: pauseStep},
		{Name: StepMachine, On: engine.InRunning, Run: machineStep},
		{Name: StepFinalizer, On: engine.InRunning, Run: finalizerStep},
		{Name: StepInstance, On: engine.InRunning, Run: instanceStep},
		{Name: StepDeleteInstance, On: engine.InDeletion, Run: deleteInstanceStep},
		{Name: StepRemoveFinalizer, On: engine.InDeletion, Run: removeFinalizerStep},
	})
}

// checkSteps returns an error for a list of steps that cannot be used.
func checkSteps(steps []Step) error {
	return engine.CheckSafety(steps, Steps(), "InfraMachine", engine.Safety{
		Keep: StepFinalizer, Release: StepRemoveFinalizer, Harmless: []string{StepPaused, StepMachine},
		Needs: []engine.Need{
			{Step: StepFinalizer, Needs: StepPaused, Why: "a paused InfraMachine would be changed"},
			{Step: StepInstance, Needs: StepMachine, Why: "instances without a Machine would be made"},
			{Step: StepInstance, Needs: StepFinalizer, Why: "an InfraMachine could vanish and leave its instance behind"},
			{Step: StepRemoveFinalizer, Needs: StepPaused, Why: "a paused InfraMachine would be deleted"},
			{Step: StepRemoveFinalizer, Needs: StepDeleteInstance, Why: "instances would be left behind"},
		},
	})
}

func pauseStep(_ context.Context, s *Scope) (Result, error) { return s.StopIfPaused() }

// finalizerStep stores the finalizer before an instance is created.
func finalizerStep(ctx context.Context, s *Scope) (Result, error) { return s.StoreFinalizer(ctx) }

func removeFinalizerStep(_ context.Context, s *Scope) (Result, error) {
	s.RemoveFinalizer()
	return Result{}, nil
}
