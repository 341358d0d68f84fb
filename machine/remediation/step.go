package remediation

import (
	"context"

	"github.com/machinist-dev/machinist/internal/engine"
)

// Step is one part of the reconciler of health checks, with a name. engine.Step documents its fields.
type Step = engine.Step[*Scope]

// Result says how a pass continues after a step.
type Result = engine.Result

// Names of the steps of Steps.
const (
	StepPaused    = "paused"
	StepCluster   = "cluster"
	StepMachines  = "machines"
	StepPlan      = "plan"
	StepRemediate = "remediate"
	StepStatus    = "status"
)

// Steps returns a new list of the steps of a health check, in order. Change it with engine.InsertBefore, engine.InsertAfter, engine.Replace and
// engine.Remove, and set Options.Steps. New rejects a list that is not safe.
//
//   - StepPaused ends the pass of a check that is paused, or whose Cluster was not read or does not exist;
//   - StepCluster sets the label and the owner reference of the Cluster;
//   - StepMachines reads the Machines and their Nodes, and judges them;
//   - StepPlan decides what happens to them, and stores the ledger;
//   - StepRemediate writes the conditions of Machines, and creates and deletes requests for external remediation;
//   - StepStatus sets the status of the check.
//
// A step between StepMachines and StepPlan may change verdicts, see Scope.Judge.
func Steps() []Step {
	return engine.Standard([]Step{
		{Name: StepPaused, On: engine.InRunning, ObjectOnly: true, Run: func(_ context.Context, s *Scope) (Result,
			error) {
			return s.StopIfPaused()
		}},
		{Name: StepCluster, On: engine.InRunning, ObjectOnly: true, Run: func(ctx context.Context, s *Scope) (Result, error) {
			return Result{}, s.JoinCluster(ctx)
		}},
		{Name: StepMachines, On: engine.InRunning, Run: machinesStep},
		{Name: StepPlan, On: engine.InRunning, Run: planStep},
		{Name: StepRemediate, On: engine.InRunning, Run: remediateStep},
		{Name: StepStatus, On: engine.InRunning, Closing: true, Run: statusStep},
	})
}

// checkSteps reports why a list of steps cannot be used. A check has no finalizer, so no step needs one.
func checkSteps(steps []Step) error {
	return engine.CheckSafety(steps, Steps(), "MachineHealthCheck", engine.Safety{
		Harmless: []string{StepPaused, StepCluster, StepMachines, StepPlan, StepRemediate, StepStatus},
		Needs: []engine.Need{
			{Step: StepCluster, Needs: StepPaused, Why: "a paused check is changed"},
			{Step: StepPlan, Needs: StepMachines, Why: "no Machine is known"},
			{Step: StepRemediate, Needs: StepPaused, Why: "Machines of a paused check are remediated"},
			{Step: StepRemediate, Needs: StepPlan, Why: "nothing is decided"},
		},
	})
}
