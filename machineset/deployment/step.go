package deployment

import (
	"context"

	"github.com/machinist-dev/machinist/internal/engine"
)

// Step is one part of the reconciler of MachineDeployments, with a name. engine.Step documents its fields.
type Step = engine.Step[*Scope]

// Names of the steps of Steps.
const (
	StepPaused          = "paused"
	StepFinalizer       = "finalizer"
	StepSets            = "sets"
	StepTemplates       = "templates"
	StepRollback        = "rollback"
	StepSync            = "sync"
	StepRollout         = "rollout"
	StepHistory         = "history"
	StepUpToDate        = "up-to-date"
	StepDeleteSets      = "delete-sets"
	StepRemoveFinalizer = "remove-finalizer"
	StepStatus          = "status"
)

// Steps returns a new list of the steps of a MachineDeployment, in order. Change it with InsertBefore, InsertAfter, Replace
// and Remove, and set Options.Steps. New rejects a list that is not safe.
//
//   - StepPaused ends the pass of a deployment that is paused, or whose Cluster was not read or does not exist;
//   - StepFinalizer adds the finalizer, the label and the owner reference of the Cluster, and writes them before anything else is changed;
//   - StepSets reads the MachineSets with their Machines, and adopts and releases MachineSets;
//   - StepTemplates reads the templates that a new MachineSet references;
//   - StepRollback copies the template of an earlier revision to the deployment on request;
//   - StepSync copies values that change in place from the deployment to its MachineSets;
//   - StepRollout decides with rollout.Plan, creates a MachineSet, marks Machines and scales MachineSets;
//   - StepHistory deletes MachineSets beyond the history limit;
//   - StepUpToDate sets the condition UpToDate of the Machines;
//   - StepDeleteSets deletes the MachineSets of a deployment in deletion;
//   - StepRemoveFinalizer removes the finalizer when a deployment in deletion has no MachineSets;
//   - StepStatus sets the conditions and the numbers of the status.
//
// A step of your own that stops the rollout must be between StepSets and StepRollout, and calls Scope.Hold.
func Steps() engine.Steps[*Scope] {
	return engine.Standard([]Step{
		{Name: StepPaused, On: engine.InBoth, ObjectOnly: true, Run: pauseStep},
		{Name: StepFinalizer, On: engine.InRunning, Run: finalizerStep},
		{Name: StepSets, On: engine.InBoth, Run: setsStep},
		{Name: StepTemplates, On: engine.InRunning, Run: templatesStep},
		{Name: StepRollback, On: engine.InRunning, Run: rollbackStep},
		{Name: StepSync, On: engine.InRunning, Run: syncStep},
		{Name: StepRollout, On: engine.InRunning, Run: rolloutStep},
		{Name: StepHistory, On: engine.InRunning, Run: historyStep},
		{Name: StepUpToDate, On: engine.InRunning, Run: upToDateStep},
		{Name: StepDeleteSets, On: engine.InDeletion, Run: deleteSetsStep},
		{Name: StepRemoveFinalizer, On: engine.InDeletion, Run: removeFinalizerStep},
		{Name: StepStatus, On: engine.InBoth, Closing: true, Run: statusStep},
	})
}

// checkSteps returns an error for a list of steps that cannot be used: duplicates, steps of Steps in another order, and missing steps
// without which sets would be created twice, or a deletion would never end.
func checkSteps(steps []Step) error {
	return engine.CheckSafety(steps, Steps(), "MachineDeployment", engine.Safety{
		Keep: StepFinalizer, Release: StepRemoveFinalizer,
		Harmless: []string{StepPaused, StepTemplates, StepRollback, StepSync, StepHistory, StepUpToDate, StepStatus},
		Needs: []engine.Need{
			{Step: StepFinalizer, Needs: StepPaused, Why: "a paused deployment is changed"},
			{Step: StepSets, Needs: StepPaused, Why: "MachineSets of a paused deployment are adopted"},
			{Step: StepRollback, Needs: StepSets, Why: "no revision is known"},
			{Step: StepSync, Needs: StepSets, Why: "no MachineSet is known"},
			{Step: StepRollout, Needs: StepSets, Why: "MachineSets are created although others exist"},
			{Step: StepRollout, Needs: StepTemplates, Why: "MachineSets are created whose templates do not exist"},
			{Step: StepUpToDate, Needs: StepSets, Why: "no Machine is known"},
			{Step: StepHistory, Needs: StepRollout, Why: "it deletes what the plan has"},
			{Step: StepRemoveFinalizer, Needs: StepDeleteSets, Why: "MachineSets of a deployment in deletion stay, and the deployment with them"},
		},
	})
}

func pauseStep(_ context.Context, s *Scope) (engine.Result, error) { return s.StopIfPaused() }

// finalizerStep adds the finalizer and the Cluster's label and owner reference before anything is created for the deployment.
func finalizerStep(ctx context.Context, s *Scope) (engine.Result, error) { return s.Keep(ctx) }
