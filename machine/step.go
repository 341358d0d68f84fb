package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/phases"
)

// Life says whether a step runs for running Machines, for Machines that are being deleted, or for both.
type Life uint8

// Values of Life.
const (
	InRunning Life = 1 << iota
	InDeletion
	InBoth = InRunning | InDeletion
)

// Result says how a pass continues after a step.
type Result struct {
	// RequeueAfter requests another pass; zero requests none. The shortest of all steps wins.
	RequeueAfter time.Duration
	// Stop skips the steps behind this one, except the closing ones.
	Stop bool
	// Checkpoint ends the pass like Stop, and requires that its decisions are written before any other action, status and conditions
	// included: the next pass starts from the object as it then is. When there is nothing to write, because the object already has all
	// values, a checkpoint has no effect, and the pass continues. Steps that are MachineOnly run nevertheless.
	Checkpoint bool
}

// StepFunc does one thing for one Machine. It reads and changes the Scope. It is called in every pass that its Life includes, from several
// goroutines for different Machines, also when it has already done its work: a step with a one-time action must check whether that action
// already ran. An error is retried with back-off. It becomes a line of the condition Ready, with the text of the first error, and in a
// deletion the message of Deleting. A Machine that is Ready stays Ready. A problem that the owner of the Machine can fix is a condition
// instead (Scope.Assert), and waits for an event.
type StepFunc func(context.Context, *Scope) (Result, error)

// Step is one part of the reconciler, with a name.
type Step struct {
	Name string
	On   Life
	// Closing steps run at the end of every pass, also when an earlier step stopped it or failed.
	Closing bool
	// MachineOnly steps decide about the Machine only and change nothing else. They run also in a pass that a checkpoint has ended, so
	// that their decisions are part of the same write; a pass that was stopped skips them too.
	MachineOnly bool
	Run         StepFunc

	// ours: the step itself decides which values of its checkpoints are written at once.
	ours bool
}

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
	StepDrain                = "drain"
	StepVolumes              = "volumes"
	StepPreTerminateHooks    = "pre-terminate-hooks"
	StepDeleteInfrastructure = "delete-infrastructure"
	StepDeleteBootstrap      = "delete-bootstrap"
	StepDeleteNode           = "delete-node"
	StepRemoveFinalizer      = "remove-finalizer"
	StepConditions           = "conditions"
	StepPhase                = "phase"
)

// Steps returns a new list of the steps of a Machine, in order: those of a running Machine, those of a Machine that is being deleted, and
// the closing ones. Change it with InsertBefore, InsertAfter, Replace and Remove and pass it to Options.Steps.
//
// Some names stand for conditions that the step sets: StepBootstrap for BootstrapConfigReady, StepInfrastructure for InfrastructureReady,
// StepNode for NodeReady and NodeHealthy, StepPaused for Paused. Ready requires all of them. A step of your own that replaces one either
// keeps its name and sets its conditions, or has another name, and then Ready does not require them.
//
// StepBootstrap, StepInfrastructure and StepNode run for running Machines and in a deletion (InBoth), and so must a step that replaces
// one. A deletion depends on what they set in the Scope: StepInfrastructure sets Scope.Infrastructure, and InstanceGone and PoweredOff
// where it knows them; StepBootstrap sets Scope.Bootstrap; StepNode sets Scope.Node and Scope.NodesSynced and calls Scope.SetNode, with
// the Node's UID, and vouches for a Node whose provider ID is not the Machine's. Drain, volumes and the Node's deletion wait while
// NodesSynced is false. A step that finds a provider ID calls Scope.SetProviderID. StepDeleteInfrastructure and StepDeleteBootstrap read
// and delete a referenced object that no earlier step has read.
func Steps() []Step {
	steps := []Step{
		{Name: StepFinalizer, On: InRunning, Run: finalizerStep},
		{Name: StepPaused, On: InBoth, MachineOnly: true, Run: pauseStep},
		{Name: StepOwners, On: InRunning, MachineOnly: true, Run: ownersStep},
		{Name: StepBootstrap, On: InBoth, Run: bootstrapStep},
		{Name: StepInfrastructure, On: InBoth, Run: infrastructureStep},
		{Name: StepNode, On: InBoth, Run: nodeStep},
		{Name: StepPropagate, On: InRunning, Run: propagateStep},
		{Name: StepCertificates, On: InRunning, Run: certificatesStep},

		{Name: StepObserve, On: InDeletion, Run: observeStep},
		{Name: StepPreDrainHooks, On: InDeletion, Run: preDrainHooksStep},
		{Name: StepDrain, On: InDeletion, Run: drainStep},
		{Name: StepVolumes, On: InDeletion, Run: volumesStep},
		{Name: StepPreTerminateHooks, On: InDeletion, Run: preTerminateHooksStep},
		{Name: StepDeleteInfrastructure, On: InDeletion, Run: deleteInfrastructureStep},
		{Name: StepDeleteBootstrap, On: InDeletion, Run: deleteBootstrapStep},
		{Name: StepDeleteNode, On: InDeletion, Run: deleteNodeStep},
		{Name: StepRemoveFinalizer, On: InDeletion, Run: removeFinalizerStep},

		{Name: StepConditions, On: InBoth, Closing: true, Run: conditionsStep},
		PhaseStep(phases.ClusterAPI(), ClusterAPIFacts),
	}
	for i := range steps {
		steps[i].ours = true
	}
	return steps
}

// ErrNoStep matches the error for a name that is not in the list of steps.
var ErrNoStep = errors.New("no such step")

// InsertBefore returns steps with one more in front of the named one. The error matches ErrNoStep.
func InsertBefore(steps []Step, name string, step Step) ([]Step, error) {
	return insert(steps, name, 0, step)
}

// InsertAfter returns steps with one more behind the named one. The error matches ErrNoStep.
func InsertAfter(steps []Step, name string, step Step) ([]Step, error) {
	return insert(steps, name, 1, step)
}

// Replace returns steps with the named one replaced. The error matches ErrNoStep.
func Replace(steps []Step, name string, step Step) ([]Step, error) {
	at, err := find(steps, name)
	if err != nil {
		return nil, err
	}
	changed := slices.Clone(steps)
	changed[at] = step
	return changed, nil
}

// Remove returns steps without the named one, for example without StepBootstrap and StepInfrastructure where Machines reference no
// objects. Ready does not require the conditions of that step. New rejects a list without StepFinalizer or StepRemoveFinalizer, and one
// with a step of a deletion that would wait for ever without another. The error matches ErrNoStep.
func Remove(steps []Step, name string) ([]Step, error) {
	at, err := find(steps, name)
	if err != nil {
		return nil, err
	}
	return slices.Delete(slices.Clone(steps), at, at+1), nil
}

// neverSet returns the conditions that no step of a list sets.
func neverSet(steps []Step) []string {
	var kinds []string
	for _, s := range []struct {
		step string
		says []string
	}{
		{StepPaused, []string{ConditionPaused}}, {StepBootstrap, []string{ConditionBootstrapConfigReady}},
		{StepInfrastructure, []string{ConditionInfrastructureReady}}, {StepNode, []string{ConditionNodeReady, ConditionNodeHealthy}},
	} {
		if _, err := find(steps, s.step); err != nil {
			kinds = append(kinds, s.says...)
		}
	}
	return kinds
}

func insert(steps []Step, name string, offset int, step Step) ([]Step, error) {
	at, err := find(steps, name)
	if err != nil {
		return nil, err
	}
	return slices.Insert(slices.Clone(steps), at+offset, step), nil
}

func find(steps []Step, name string) (int, error) {
	at := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name })
	if at < 0 {
		names := make([]string, len(steps))
		for i, s := range steps {
			names[i] = s.Name
		}
		return 0, fmt.Errorf("%w: %q; there are %s", ErrNoStep, name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return at, nil
}

// run executes the steps. For a running Machine, a failing step does not stop the later ones, because they handle other objects; in a
// deletion it does, because the order of the steps is what makes it safe.
func run(ctx context.Context, steps []Step, s *Scope) (Result, error) {
	life := InRunning
	if !s.State.Deleting.IsZero() {
		life = InDeletion
	}
	var total Result
	var errs []error
	for _, step := range steps {
		stopped := total.Stop || (total.Checkpoint && !step.MachineOnly) || (life == InDeletion && len(errs) > 0)
		if step.On&life == 0 || (stopped && !step.Closing) {
			continue
		}
		result, err := step.run(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("step %s: %w", step.Name, err))
		}
		total = Result{
			RequeueAfter: soonest(total.RequeueAfter, result.RequeueAfter),
			Stop:         total.Stop || result.Stop,
			Checkpoint:   total.Checkpoint || result.Checkpoint,
		}
	}
	return total, errors.Join(errs...)
}

// run executes one step, and records its error. A checkpoint with nothing to write has no effect.
func (step *Step) run(ctx context.Context, s *Scope) (Result, error) {
	began, id := s.observer.now(), s.State.ProviderID
	result, err := step.Run(ctx, s)
	tells := !step.ours // the others have conditions of their own
	if err == nil && s.State.ProviderID != id {
		err = s.checkProviderIDStored(id)
		tells = true
	}
	result.Checkpoint = result.Checkpoint && s.hasDecided()
	s.demanded = s.demanded || (result.Checkpoint && !step.ours)
	s.observer.ran(step.Name, began, result, err)
	switch {
	case err == nil:
	case !s.State.Deleting.IsZero():
		s.sayFailed(err)
	case tells && !patch.Retryable(err):
		s.failures = append(s.failures, stepFailure{step.Name, err})
	}
	return result, err
}

// sayFailed sets the condition Deleting to an error that no stage has reported. It does nothing for a Machine that may be paused.
func (s *Scope) sayFailed(err error) {
	if s.paused {
		return
	}
	said, found := findCondition(s.asserted, ConditionDeleting)
	if !patch.Retryable(err) && (!found || said.Reason == ReasonDeleting) {
		s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonInternalError, err.Error()))
	}
}

func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
