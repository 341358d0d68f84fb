package machinepool

import (
	"context"

	"github.com/machinist-dev/machinist/internal/engine"
)

// Step is one part of the reconciler of MachinePools, with a name. engine.Step documents its fields.
type Step = engine.Step[*Scope]

// Result defines how a pass continues after a step.
type Result = engine.Result

// Names of the steps that Steps returns.
const (
	StepPaused               = "paused"
	StepFinalizer            = "finalizer"
	StepBootstrap            = "bootstrap"
	StepInfrastructure       = "infrastructure"
	StepMachines             = "machines"
	StepNodes                = "nodes"
	StepSyncMachines         = "sync-machines"
	StepPropagate            = "propagate"
	StepLeaving              = "leaving"
	StepDeleteMachines       = "delete-machines"
	StepDrain                = "drain"
	StepDeleteInfrastructure = "delete-infrastructure"
	StepDeleteBootstrap      = "delete-bootstrap"
	StepDeleteNodes          = "delete-nodes"
	StepRemoveFinalizer      = "remove-finalizer"
	StepStatus               = "status"
)

// Steps returns a new list of the steps of a MachinePool, in order: those that read what the pool consists of, those of a running pool,
// those of a pool that is being deleted, and the closing one. Change it with InsertBefore, InsertAfter, Replace and Remove, and
// set Options.Steps. New rejects a list that is not safe.
//
//   - StepPaused ends the pass of a paused pool; StepFinalizer stores the finalizer, the label of the Cluster and the owner;
//   - StepBootstrap and StepInfrastructure read and own the referenced objects; StepMachines reads the Machines of single instances, and
//     StepNodes finds the Nodes of the instances;
//   - StepSyncMachines creates, labels and deletes Machines; StepPropagate writes labels, annotations and taints of Nodes; StepLeaving
//     drains the Nodes of instances that leave, and deletes Nodes whose instance has left;
//   - StepDeleteMachines, StepDrain, StepDeleteInfrastructure, StepDeleteBootstrap, StepDeleteNodes and StepRemoveFinalizer are the stages
//     of a deletion, each of which waits until it is complete;
//   - StepStatus sets counters, phase and conditions. It changes none of them in a pass that ended before StepNodes.
//
// A step of your own that returns Result.Stop between two of them delays the later ones in this pass. It must assert a condition with the
// reason, because the pool itself reports only what its own steps wait for.
func Steps() engine.Steps[*Scope] {
	return engine.Standard([]Step{
		{Name: StepPaused, On: engine.InBoth, ObjectOnly: true, Run: pauseStep},
		{Name: StepFinalizer, On: engine.InRunning, Run: finalizerStep},
		{Name: StepBootstrap, On: engine.InBoth, Run: observes((*Scope).observeBootstrap)},
		{Name: StepInfrastructure, On: engine.InBoth, Run: observes((*Scope).observeInfrastructure)},
		{Name: StepMachines, On: engine.InBoth, Run: acts((*Scope).observeMachines)},
		{Name: StepNodes, On: engine.InBoth, Run: observes((*Scope).observeNodes)},
		{Name: StepSyncMachines, On: engine.InRunning, Run: acts((*Scope).syncMachines)},
		{Name: StepPropagate, On: engine.InRunning, Run: acts((*Scope).propagate)},
		{Name: StepLeaving, On: engine.InRunning, Run: acts((*Scope).removeNodes)},
		{Name: StepDeleteMachines, On: engine.InDeletion, Run: stage((*Scope).deleteAllMachines)},
		{Name: StepDrain, On: engine.InDeletion, Run: stage((*Scope).drainAll)},
		{Name: StepDeleteInfrastructure, On: engine.InDeletion, Run: stage((*Scope).deleteInfrastructure)},
		{Name: StepDeleteBootstrap, On: engine.InDeletion, Run: stage((*Scope).deleteBootstrap)},
		{Name: StepDeleteNodes, On: engine.InDeletion, Run: stage((*Scope).deleteAllNodes)},
		{Name: StepRemoveFinalizer, On: engine.InDeletion, Run: removeFinalizerStep},
		{Name: StepStatus, On: engine.InBoth, Closing: true, Run: statusStep},
	})
}

// checkSteps returns an error for a list of steps that cannot be used: duplicates, steps of Steps in another order, and missing steps
// without which instances or Nodes would be lost, or a deletion would never end. A step of the same name may replace each of them.
func checkSteps(steps []Step) error {
	return engine.CheckSafety(steps, Steps(), "MachinePool", engine.Safety{
		Keep: StepFinalizer, Release: StepRemoveFinalizer, Harmless: []string{StepPaused, StepStatus},
		Needs: []engine.Need{
			{Step: StepFinalizer, Needs: StepPaused, Why: "a paused MachinePool would be changed"},
			{Step: StepRemoveFinalizer, Needs: StepPaused, Why: "a paused MachinePool would be deleted"},
			{Step: StepDeleteMachines, Needs: StepMachines, Why: "Machines that are not read would not be deleted"},
			{Step: StepDrain, Needs: StepNodes, Why: "Nodes that are not read cannot be drained"},
			{Step: StepDeleteInfrastructure, Needs: StepInfrastructure, Why: "an object that is not read would not be deleted"},
			{Step: StepDeleteInfrastructure, Needs: StepDeleteMachines, Why: "instances would be deleted without their Machines' drains and hooks"},
			{Step: StepDeleteBootstrap, Needs: StepBootstrap, Why: "an object that is not read would not be deleted"},
			{Step: StepDeleteNodes, Needs: StepNodes, Why: "Nodes that are not read cannot be deleted"},
			{Step: StepDeleteNodes, Needs: StepDeleteInfrastructure, Why: "Nodes of instances that still exist would be deleted"},
			{Step: StepRemoveFinalizer, Needs: StepDeleteInfrastructure, Why: "instances would be left behind"},
		},
	})
}

// acts returns a step function for a function.
func acts(do func(*Scope, context.Context) error) engine.StepFunc[*Scope] {
	return func(ctx context.Context, p *Scope) (Result, error) { return Result{}, do(p, ctx) }
}

// observes returns a step function for a function that reads an object. In a deletion, its error delays only the stages that need the
// object.
func observes(do func(*Scope, context.Context) error) engine.StepFunc[*Scope] {
	return func(ctx context.Context, p *Scope) (Result, error) { return Result{}, p.DeferError(do(p, ctx)) }
}

// stage returns a step function for a stage of a deletion, which stops the pass until the stage is complete.
func stage(complete func(*Scope, context.Context) (bool, error)) engine.StepFunc[*Scope] {
	return func(ctx context.Context, p *Scope) (Result, error) {
		done, err := complete(p, ctx)
		return Result{Stop: !done}, err
	}
}
