package remediation

import (
	"context"

	"github.com/machinist-dev/machinist/contract/pass"
)

// Step is one part of the reconciler of health checks, with a name. pass.Step documents its fields.
type Step = pass.Step[*Scope]

// Result says how a pass continues after a step.
type Result = pass.Result

// Names of the steps of Steps.
const (
	StepPaused    = "paused"
	StepCluster   = "cluster"
	StepMachines  = "machines"
	StepPlan      = "plan"
	StepRemediate = "remediate"
	StepStatus    = "status"
)

// Steps returns a new list of the steps of a health check, in order. Change it with pass.InsertBefore, pass.InsertAfter, pass.Replace and
// pass.Remove, and set Options.Steps. New rejects a list that is not safe.
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
	return pass.Standard([]Step{
		{Name: StepPaused, On: pass.InRunning, ObjectOnly: true, Run: func(_ context.Context, s *Scope) (Result,
			error) {
			return s.StopIfPaused()
		}},
		{Name: StepCluster, On: pass.InRunning, ObjectOnly: true, Run: func(ctx context.Context, s *Scope) (Result, error) {
			return Result{}, s.JoinCluster(ctx)
		}},
		{Name: StepMachines, On: pass.InRunning, Run: machinesStep},
		{Name: StepPlan, On: pass.InRunning, Run: planStep},
		{Name: StepRemediate, On: pass.InRunning, Run: remediateStep},
		{Name: StepStatus, On: pass.InRunning, Closing: true, Run: statusStep},
	})
}

// checkSteps reports why a list of steps cannot be used. A check has no finalizer, so no step needs one.
func checkSteps(steps []Step) error {
	return pass.CheckSafety(steps, Steps(), "MachineHealthCheck", pass.Safety{
		Harmless: []string{StepPaused, StepCluster, StepMachines, StepPlan, StepRemediate, StepStatus},
		Needs: []pass.Need{
			{Step: StepCluster, Needs: StepPaused, Why: "a paused check is changed"},
			{Step: StepPlan, Needs: StepMachines, Why: "no Machine is known"},
			{Step: StepRemediate, Needs: StepPaused, Why: "Machines of a paused check are remediated"},
			{Step: StepRemediate, Needs: StepPlan, Why: "nothing is decided"},
		},
	})
}
