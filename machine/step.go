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
	// Checkpoint ends the pass like Stop, and demands that what it decided is written before anything else is done: the
	// next pass starts from the object as it then is.
	Checkpoint bool
}

// StepFunc does one thing for one Machine. It reads and changes the Scope. It is called in every pass of that part of the Machine's
// life, from several goroutines for different Machines, also when nothing is left to do: ask first what is there. An error is retried with back-off; whatever the person who looks
// at the Machine can mend is a condition instead (Scope.Assert), and waits for an event.
type StepFunc func(context.Context, *Scope) (Result, error)

// Step is one part of the reconciler, by name.
type Step struct {
	Name string
	On   Life
	// Closing steps run at the end of every pass, also when an earlier step stopped it or failed.
	Closing bool
	Run     StepFunc
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
func Steps() []Step {
	return []Step{
		{Name: StepFinalizer, On: InRunning, Run: finalizerStep},
		{Name: StepPaused, On: InBoth, Run: pauseStep},
		{Name: StepOwners, On: InRunning, Run: ownersStep},
		{Name: StepBootstrap, On: InRunning, Run: bootstrapStep},
		{Name: StepInfrastructure, On: InRunning, Run: infrastructureStep},
		{Name: StepNode, On: InRunning, Run: nodeStep},
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
// The conditions that it would have said do not count any more. The error matches ErrNoStep.
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

func validateSteps(steps []Step) error {
	var errs []error
	seen := map[string]bool{}
	for i, s := range steps {
		switch {
		case s.Name == "":
			errs = append(errs, fmt.Errorf("step %d: a step needs a name and a function", i))
		case s.Run == nil:
			errs = append(errs, fmt.Errorf("step %s: a step needs a name and a function, and Run is nil", s.Name))
		case s.On&InBoth == 0:
			errs = append(errs, fmt.Errorf("step %s never runs: set On", s.Name))
		case seen[s.Name]:
			errs = append(errs, fmt.Errorf("step %s stands there twice", s.Name))
		}
		seen[s.Name] = true
	}
	return errors.Join(errs...)
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
		stopped := total.Stop || total.Checkpoint || (life == InDeletion && len(errs) > 0)
		if step.On&life == 0 || (stopped && !step.Closing) {
			continue
		}
		began := s.observer.now()
		result, err := step.Run(ctx, s)
		s.observer.ran(step.Name, began, result, err)
		if err != nil {
			errs = append(errs, fmt.Errorf("step %s: %w", step.Name, err))
			if life == InDeletion {
				s.sayFailed(err)
			}
		}
		total = Result{
			RequeueAfter: soonest(total.RequeueAfter, result.RequeueAfter),
			Stop:         total.Stop || result.Stop,
			Checkpoint:   total.Checkpoint || result.Checkpoint,
		}
	}
	return total, errors.Join(errs...)
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
