package machine

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/phases"
)

// Step is one part of the reconciler of Machines, with a name; see engine.Step for its fields. An error of its function becomes a line of
// the condition Ready, and in a deletion the message of Deleting; a Machine that is Ready stays Ready. A problem that the owner of the
// Machine can fix is a condition instead (Scope.Assert), and waits for an event.
type Step = engine.Step[*Scope]

// Result defines how a pass continues after a step.
type Result = engine.Result

// Life selects the Machines for which a step runs.
type Life = engine.Life

// Values of Life: Machines that are not being deleted, Machines that are being deleted, and both.
const (
	InRunning  = engine.InRunning
	InDeletion = engine.InDeletion
	InBoth     = engine.InBoth
)

// Names of the steps that Steps returns.
const (
	StepFinalizer            = "finalizer"
	StepPaused               = "paused"
	StepOwners               = "owners"
	StepBootstrap            = "bootstrap"
	StepInfrastructure       = "infrastructure"
	StepNode                 = "node"
	StepPropagate            = "propagate"
	StepCertificates         = "certificates"
	StepObserve              = "observe"
	StepPreDrainHooks        = "pre-drain-hooks"
	StepDrain                = contract.StageDrain
	StepVolumes              = contract.StageVolumes
	StepPreTerminateHooks    = contract.StagePreTerminateHooks
	StepDeleteInfrastructure = "delete-infrastructure"
	StepDeleteBootstrap      = "delete-bootstrap"
	StepDeleteNode           = contract.StageDeleteNode
	StepRemoveFinalizer      = "remove-finalizer"
	StepConditions           = "conditions"
	StepPhase                = "phase"
)

// Steps returns a new list of the steps of a Machine, in order: those of a running Machine, those of a Machine that is being deleted, and
// the closing ones. Change it with InsertBefore, InsertAfter, Replace and Remove and pass it to Options.Steps. The steps of a deletion are
// stages, except StepObserve; see Stage for your own. New rejects a list without StepFinalizer or StepRemoveFinalizer, and a list with a
// step of a deletion that would wait forever because another step is missing.
//
// Some names represent the conditions that the step sets: StepBootstrap BootstrapConfigReady, StepInfrastructure InfrastructureReady,
// StepNode NodeReady and NodeHealthy, StepPaused Paused. Ready requires all of them. A step of your own that replaces one either has the
// same name and sets its conditions, or has another name, and Ready does not require them.
//
// StepBootstrap, StepInfrastructure and StepNode run for running Machines and in a deletion (InBoth), and so must a step that replaces one,
// because a deletion depends on what they set in the Scope: StepInfrastructure sets Scope.Infrastructure, and InstanceGone and PoweredOff
// if known; StepBootstrap sets Scope.Bootstrap; StepNode sets Scope.Node and Scope.NodesSynced and calls Scope.SetNode, with the Node's
// UID. A step in place of StepNode must itself make sure that a Node with another provider ID is the Machine's. Drain, volumes and the
// Node's deletion wait while NodesSynced is false. A step that finds a provider ID calls Scope.SetProviderID. StepDeleteInfrastructure and
// StepDeleteBootstrap read and delete a referenced object that no earlier step has read.
func Steps() engine.Steps[*Scope] {
	steps := []Step{
		{Name: StepFinalizer, On: engine.InRunning, Run: finalizerStep},
		{Name: StepPaused, On: engine.InBoth, ObjectOnly: true, Run: pauseStep},
		{Name: StepOwners, On: engine.InRunning, ObjectOnly: true, Run: ownersStep},
		{Name: StepBootstrap, On: engine.InBoth, Run: bootstrapStep},
		{Name: StepInfrastructure, On: engine.InBoth, Run: infrastructureStep},
		{Name: StepNode, On: engine.InBoth, Run: nodeStep},
		{Name: StepPropagate, On: engine.InRunning, Run: propagateStep},
		{Name: StepCertificates, On: engine.InRunning, Run: certificatesStep},

		{Name: StepObserve, On: engine.InDeletion, Run: observeStep},
	}
	for _, stage := range stages() {
		steps = append(steps, stage.Step())
	}
	return engine.Standard(append(steps,
		Step{Name: StepConditions, On: engine.InBoth, Closing: true, Run: conditionsStep},
		PhaseStep(phases.ClusterAPI(), ClusterAPIFacts),
	))
}

// setBySteps returns the conditions that the steps with these names set.
func setBySteps() []struct{ step, condition string } {
	return []struct{ step, condition string }{
		{StepPaused, contract.ConditionPaused}, {StepBootstrap, contract.ConditionBootstrapConfigReady},
		{StepInfrastructure, contract.ConditionInfrastructureReady}, {StepNode, contract.ConditionNodeReady}, {StepNode, ConditionNodeHealthy},
	}
}

// neverSet returns the conditions that no step of a list sets.
func neverSet(steps []Step) (conditions []string) {
	for _, sets := range setBySteps() {
		if engine.Position(steps, sets.step, engine.InBoth) < 0 {
			conditions = append(conditions, sets.condition)
		}
	}
	return conditions
}

// runStep executes one step, and records its error.
func runStep(ctx context.Context, step *Step, s *Scope) (Result, error) {
	id := s.State.ProviderID
	result, err := step.Run(ctx, s)
	// the other steps have conditions; the API server of the Nodes validates labels that come from the spec of the Machine
	reports := !step.IsStandard() || step.Name == StepPropagate && apierrors.IsInvalid(err)
	if err == nil && s.State.ProviderID != id {
		if err = s.checkStored(); err != nil { // the Node that matches it would never be drained
			s.State.ProviderID, s.Update.ProviderID, reports = id, contract.Change[string]{}, true
		}
	}
	switch {
	case err == nil:
	case s.Deleting():
		s.assertFailed(err)
	case reports && !patch.Retryable(err):
		s.failures = append(s.failures, "* Step "+step.Name+" failed: "+strings.Join(strings.Fields(err.Error()), " "))
	}
	return result, err
}

// assertFailed sets the condition Deleting to an error that no stage has reported. It does nothing for a Machine that may be paused.
func (s *Scope) assertFailed(err error) {
	have, found := engine.Find(s.Asserted, contract.ConditionDeleting)
	if !s.Paused() && !patch.Retryable(err) && (!found || have.Reason == contract.ReasonDeleting) {
		s.Assert(engine.Condition(contract.ConditionDeleting, metav1.ConditionTrue, contract.ReasonInternalError, err.Error()))
	}
}

// validateSteps reports all errors in a list of steps.
func validateSteps(steps []Step) error {
	const noNode, attached = "no step looks its Node up in InDeletion", "no step frees the volumes"
	return engine.CheckSafety(steps, Steps(), "Machine", engine.Safety{
		Keep: StepFinalizer, Release: StepRemoveFinalizer, Harmless: []string{StepPaused, StepOwners, StepConditions, StepPhase},
		Needs: []engine.Need{ // each step waits forever without the other
			{Step: StepDrain, Needs: StepNode, OrOther: true, Why: noNode},
			{Step: StepVolumes, Needs: StepNode, OrOther: true, Why: noNode},
			{Step: StepVolumes, Needs: StepDrain, OrOther: true, Why: attached},
			{Step: StepDeleteNode, Needs: StepNode, OrOther: true, Why: noNode},
		},
	})
}

// pauseStep ends the pass of a paused Machine.
func pauseStep(_ context.Context, s *Scope) (Result, error) {
	s.Requeue(s.Cluster.ControlPlane.RetryAfter)
	return s.StopIfPaused()
}

// finalizerStep stores the finalizer, which retains the Machine until all its objects are gone. It must be stored before any other object
// is changed: a Machine without it could be deleted and leak an instance.
func finalizerStep(_ context.Context, s *Scope) (Result, error) {
	if !s.AddFinalizer() {
		return Result{}, nil
	}
	if err := s.checkStored(); err != nil {
		return Result{Stop: true}, err
	}
	return Result{Checkpoint: true}, nil
}

// ownersStep labels the Machine with its cluster, and adds the Cluster as an owner if the Machine has no controller. A Machine with the
// label of a set, a pool or a control plane waits for its adoption instead.
func ownersStep(ctx context.Context, s *Scope) (Result, error) {
	return Result{}, s.JoinCluster(ctx, contract.SetNameLabel, contract.PoolNameLabel, contract.ControlPlaneNameLabel)
}
