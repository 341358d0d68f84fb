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

// Life says in which part of a Machine's life a step runs.
type Life uint8

// A step runs while the Machine lives, while it is being deleted, or in both.
const (
	InRunning Life = 1 << iota
	InDeletion
	InBoth = InRunning | InDeletion
)

// Result says how a pass goes on after a step.
type Result struct {
	// RequeueAfter asks for another pass; zero asks for none. The soonest of all steps wins.
	RequeueAfter time.Duration
	// Stop skips the steps behind this one, the closing ones aside.
	Stop bool
	// Checkpoint ends the pass like Stop, and demands that what it decided is written before anything else is done, status and conditions
	// too: the next pass starts from the object as it then is. While there is nothing to write, because the object says all that already,
	// a checkpoint is none, and the pass goes on. Steps that are MachineOnly run all the same.
	Checkpoint bool
}

// StepFunc does one thing for one Machine. It reads and changes the Scope. It is called in every pass of that part of the Machine's
// life, from several goroutines for different Machines, also when nothing is left to do: ask first what is there. An error is retried with back-off. It is a line of the
// condition Ready, in the words that it began with, and in a deletion it is the message of Deleting. A Machine that is Ready stays so.
// Whatever the person who looks at the Machine can mend is a condition instead (Scope.Assert), and waits for an event.
type StepFunc func(context.Context, *Scope) (Result, error)

// Step is one part of the reconciler, by name.
type Step struct {
	Name string
	On   Life
	// Closing steps run at the end of every pass, also when an earlier step stopped it or failed.
	Closing bool
	// MachineOnly steps decide about the Machine itself and touch nothing else. They run also in a pass that a checkpoint has ended, so
	// that what they decide is part of the same write; a pass that was stopped skips them too.
	MachineOnly bool
	Run         StepFunc

	// ours: the step itself says what of its checkpoints has to be written at once.
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

// Steps returns a fresh list of the steps of a Machine, in order: those of a running Machine, those of a Machine that is
// being deleted, and the closing ones. Change it with InsertBefore, InsertAfter, Replace and Remove and hand it to Options.Steps.
//
// A step by one of these names says certain conditions: StepBootstrap BootstrapConfigReady, StepInfrastructure
// InfrastructureReady, StepNode NodeReady and NodeHealthy, StepPaused Paused. Ready waits for all of them. So a step of your own
// that takes the place of one keeps its name and asserts its conditions, or it has another name, and then nobody misses them.
//
// StepBootstrap, StepInfrastructure and StepNode run in both parts of the life, and so does a step that takes the place of one (InBoth).
// What a deletion does follows from what they put into the Scope: StepInfrastructure sets Scope.Infrastructure, and InstanceGone and PoweredOff
// where it knows; StepBootstrap sets Scope.Bootstrap; StepNode sets Scope.Node and Scope.NodesSynced and calls Scope.SetNode, with the
// Node's UID, and vouches for a Node whose provider ID is not the Machine's. Drain, volumes and the Node's deletion wait while NodesSynced is false. A step that finds a provider ID calls
// Scope.SetProviderID. An object that the Machine refers to, and that no step in front of StepDeleteInfrastructure and StepDeleteBootstrap
// has looked at, is looked at and deleted by these.
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

// ErrNoStep matches the error of looking for a step by a name that the list does not have.
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

// Remove returns steps without the named one, say without StepBootstrap and StepInfrastructure where Machines refer to no objects.
// The conditions that it would have said do not count any more. New refuses a list that lacks StepFinalizer or StepRemoveFinalizer, and
// one with a step of a deletion that would wait for ever without another. The error matches ErrNoStep.
func Remove(steps []Step, name string) ([]Step, error) {
	at, err := find(steps, name)
	if err != nil {
		return nil, err
	}
	return slices.Delete(slices.Clone(steps), at, at+1), nil
}

// unsaid returns the conditions that no step of a list is there to say.
func unsaid(steps []Step) []string {
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

// run carries the steps out over a scope. While the Machine lives, a failing step does not keep the later ones from
// running, because they serve other objects; while it is being deleted, order is what keeps things safe, so it does.
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

// run carries one step out, and notes what it fails with. A checkpoint that has nothing to write is none.
func (step *Step) run(ctx context.Context, s *Scope) (Result, error) {
	began, id := s.observer.now(), s.State.ProviderID
	result, err := step.Run(ctx, s)
	tells := !step.ours // the others have conditions of their own
	if err == nil && s.State.ProviderID != id {
		err = s.keepsProviderID(id)
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

// sayFailed has the condition Deleting name an error that no stage has put into words. What may be paused says nothing.
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
