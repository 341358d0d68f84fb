package machineset

import (
	"context"
	"errors"
	"fmt"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Step is one part of the reconciler of MachineSets, with a name. engine.Step documents its fields.
type Step = engine.Step[*Scope]

// Result defines how a pass continues after a step.
type Result = engine.Result

// Names of the steps of Steps.
const (
	StepPaused          = "paused"
	StepFinalizer       = "finalizer"
	StepMachines        = "machines"
	StepTemplates       = "templates"
	StepHolds           = "holds"
	StepSync            = "sync"
	StepScale           = "scale"
	StepRemediate       = "remediate"
	StepRemoveFinalizer = "remove-finalizer"
	StepStatus          = "status"
)

// Steps returns a new list of the steps of a MachineSet, in order. Change it with InsertBefore, InsertAfter, Replace and Remove,
// and set Options.Steps. New rejects a list that is not safe.
//
//   - StepPaused ends the pass of a set that is paused, or whose Cluster was not read or does not exist;
//   - StepFinalizer adds the finalizer, the label and the owner reference of the Cluster, and writes them before anything else is changed;
//   - StepMachines reads the Machines and the creation ledger, and adopts and releases Machines;
//   - StepTemplates reads the templates, and StepHolds what else keeps the set from creating, such as preflight checks;
//   - StepSync copies what changes in place from the set to its Machines;
//   - StepScale creates or deletes Machines;
//   - StepRemediate deletes Machines that a health check has marked, so that StepScale creates others in their place;
//   - StepRemoveFinalizer removes the finalizer when a set in deletion has no Machines, or orphans them;
//   - StepStatus sets the conditions and the numbers of the status.
//
// A step of your own that prevents the set from creating, and so from replacing, must be between StepMachines and StepScale, and calls
// Scope.Hold. A step that fails does not prevent later steps from running, except in a deletion: a step that must succeed before Machines
// are created calls Scope.Hold, or returns Stop, with its error.
func Steps() engine.Steps[*Scope] {
	return engine.Standard([]Step{
		{Name: StepPaused, On: engine.InBoth, ObjectOnly: true, Run: pauseStep},
		{Name: StepFinalizer, On: engine.InRunning, Run: finalizerStep},
		{Name: StepMachines, On: engine.InBoth, Run: machinesStep},
		{Name: StepTemplates, On: engine.InBoth, Run: templatesStep},
		{Name: StepHolds, On: engine.InRunning, Run: holdsStep},
		{Name: StepSync, On: engine.InBoth, Run: syncStep},
		{Name: StepScale, On: engine.InBoth, Run: scaleStep},
		{Name: StepRemediate, On: engine.InRunning, Run: remediateStep},
		{Name: StepRemoveFinalizer, On: engine.InDeletion, Run: removeFinalizerStep},
		{Name: StepStatus, On: engine.InBoth, Closing: true, Run: statusStep},
	})
}

// checkSteps returns an error for a list of steps that cannot be used: duplicates, steps of Steps in another order, and missing steps
// without which Machines would be created twice or without their objects, or a deletion would never end. A step of the same name may
// replace each of them, except StepMachines and StepTemplates, which set values that only StepScale of this package uses.
func checkSteps(steps []Step) error {
	err := engine.CheckSafety(steps, Steps(), "MachineSet", engine.Safety{
		Keep: StepFinalizer, Release: StepRemoveFinalizer, Harmless: []string{StepPaused, StepTemplates, StepHolds, StepRemediate, StepStatus},
		Needs: []engine.Need{
			{Step: StepFinalizer, Needs: StepPaused, Why: "a paused set is changed"},
			{Step: StepMachines, Needs: StepPaused, Why: "Machines of a paused set are adopted"},
			{Step: StepHolds, Needs: StepMachines, Why: "the selector is unknown"},
			{Step: StepSync, Needs: StepMachines, Why: "no Machine is known"},
			{Step: StepScale, Needs: StepMachines, Why: "Machines are created although others exist"},
			{Step: StepScale, Needs: StepTemplates, Why: "Machines are created without the objects that they refer to"},
			{Step: StepRemediate, Needs: StepMachines, Why: "no Machine is known"},
			{Step: StepRemediate, Needs: StepScale, Why: "Machines are deleted that would not be replaced"},
			{Step: StepRemoveFinalizer, Needs: StepScale, Why: "the Machines of a set in deletion stay, and the set with them"},
		},
	})
	errs := []error{err}
	for _, name := range []string{StepMachines, StepTemplates} { // only they set what StepScale uses
		if engine.HasStandard(steps, StepScale) && engine.Position(steps, name, engine.InBoth) >= 0 && !engine.HasStandard(steps, name) {
			errs = append(errs, fmt.Errorf("step %s is replaced, and step %s needs what it reads: put a step in front of it or behind it, or "+
				"replace step %s too", name, StepScale, StepScale))
		}
	}
	return errors.Join(errs...)
}

func pauseStep(_ context.Context, s *Scope) (Result, error) { return s.StopIfPaused() }

// finalizerStep adds the finalizer and the Cluster's label and owner reference before anything is created for the set.
func finalizerStep(ctx context.Context, s *Scope) (Result, error) {
	return s.Keep(ctx, contract.DeploymentNameLabel)
}

// machinesStep ends the pass when the Machines could not be read, so that nothing is decided. Machines that could not be adopted or
// released do not end it.
func machinesStep(ctx context.Context, s *Scope) (Result, error) {
	if err := s.machines.Observe(ctx); err != nil || s.machines.Waiting {
		return Result{Stop: true}, err
	}
	if err := s.nameReplicas(ctx); err != nil {
		return Result{Stop: true}, err
	}
	return Result{}, errors.Join(s.machines.Unclaimed...)
}

// nameReplicas reports how many Machines there are in a set without a number of replicas.
func (s *Scope) nameReplicas(ctx context.Context) error {
	observed, known := s.State.ObservedReplicas.Get()
	_, made := s.State.Annotations[scale.LedgerAnnotation]
	there := max(observed, int32(len(s.machines.Own)+s.machines.Reserved(s.machines.Settle()))) //nolint:gosec // memory limits the number
	return s.NameReplicas(ctx, &s.State.ReplicatedState, &s.Update.ReplicatedUpdate, there, !known && !made && there == 0)
}
