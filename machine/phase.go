package machine

import (
	"context"
	"slices"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// PhaseStep returns the step that computes the phase in the dialect of a table, from the facts of a pass:
//
//	steps := machine.Steps().Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
//
// The facts are read once, at the end of every pass, even of a pass that failed. They may use the decisions of the pass, and must not
// change the Scope. ClusterAPIFacts, KubermaticFacts and GardenerFacts return the facts that follow from a Machine; wrap one to add facts
// of your own, or write one for a table of your own.
//
// Scope.Phase then has the decision, its reason and what is waited for; a closing step behind this one can use it. The phase of a paused
// Machine does not change. New rejects the step for a nil table or function.
func PhaseStep[F comparable](table *phases.Table[F], facts func(*Scope) F) Step {
	step := Step{Name: StepPhase, On: engine.InBoth, Closing: true}
	if table == nil || facts == nil {
		return step
	}
	step.Run = func(_ context.Context, s *Scope) (Result, error) {
		if s.Paused() {
			return Result{}, nil
		}
		s.Phase = table.Compute(facts(s))
		s.setPhase(string(s.Phase.Phase))
		return Result{}, nil
	}
	return step
}

// ClusterAPIFacts returns the facts of a pass for the dialects of Cluster API.
func ClusterAPIFacts(s *Scope) phases.Facts {
	return phases.Facts{
		Deleting:            s.Deleting(),
		BootstrapReady:      s.State.BootstrapReady.Or(false),
		InfrastructureReady: s.State.InfrastructureReady.Or(false),
		HasProviderID:       noderef.ValidProviderID(s.State.ProviderID),
		HasNode:             s.State.Node.Name != "",
		Updating:            s.IsTrue(contract.ConditionUpdating),
		Failed:              s.failureReported(),
	}
}

// KubermaticInitializers is the annotation that stops Kubermatic's machine-controller from acting on a Machine while it is not empty.
const KubermaticInitializers = "machine-controller.kubermatic.io/initializers"

// KubermaticFacts returns the facts of a pass for Kubermatic's dialect, as far as they follow from a Machine.
//
//   - Valid: bootstrap data or an instance exists, and neither is created from an invalid spec; or the Driver of WithDriver has accepted
//     the spec. If you validate earlier, set it.
//   - Held: the Machine has KubermaticInitializers, or is paused; PhaseStep does not change the phase of a paused Machine.
//   - NodeWasReady: the Node is Ready, or the stored phase is Running with this Node. If the write of that phase was lost, the Machine is
//     Joining until the Node is Ready again.
//   - Gone: the finalizer is removed in this pass. The phase is visible only if there are other finalizers.
func KubermaticFacts(s *Scope) phases.KubermaticFacts {
	f := phases.KubermaticFacts{
		Deleting:     s.Deleting(),
		Failed:       s.failureReported(),
		Held:         s.Paused() || s.State.Annotations[KubermaticInitializers] != "",
		HasInstance:  s.hasInstance(),
		HasAddresses: len(s.State.Addresses) > 0,
		HasNode:      s.State.Node.Name != "",
		NodeWasReady: s.IsTrue(contract.ConditionNodeReady) || s.remembers(phases.Running),
	}
	f.Valid = f.HasInstance || s.validated.Or(s.State.BootstrapReady.Or(false))
	f.Gone = f.Deleting && !slices.Contains(s.State.Finalizers, s.env.frame.Finalizer)
	return f
}

// GardenerFacts returns the facts of a pass for Gardener's dialect, as far as they follow from a Machine.
//
//   - CreateFailed: a failure was recorded (Scope.SetFailure) and there is no instance. Clear it before the next attempt.
//   - Healthy: NodeReady and NodeHealthy are True.
//   - Joined: the stored phase is one that only a Machine with a once healthy Node has.
//   - WasFailed: the stored phase is Failed, with this Node.
//   - UpdateStarted: the condition Updating is True; UpdateFailed: with ReasonInPlaceUpdateFailed. A healthy Node ends an update that
//     succeeded.
//
// If you add a timeout, request another pass when it ends (Result.RequeueAfter in a step of your own).
func GardenerFacts(s *Scope) phases.GardenerFacts {
	f := phases.GardenerFacts{
		Deleting:      s.Deleting(),
		HasInstance:   s.hasInstance(),
		Healthy:       s.IsTrue(contract.ConditionNodeReady) && s.IsTrue(ConditionNodeHealthy),
		UpdateStarted: s.IsTrue(contract.ConditionUpdating),
	}
	f.CreateFailed = s.failureReported() && !f.HasInstance
	f.Joined = s.remembers(phases.Running, phases.Unknown, phases.InPlaceUpdating, phases.InPlaceUpdateSuccessful, phases.InPlaceUpdateFailed)
	f.WasFailed = s.remembers(phases.Failed)
	updating, _ := s.Condition(contract.ConditionUpdating)
	f.UpdateFailed = f.UpdateStarted && updating.Reason == ReasonInPlaceUpdateFailed
	return f
}

func (s *Scope) failureReported() bool {
	return s.State.FailureReason != "" || s.State.FailureMessage != ""
}

func (s *Scope) hasInstance() bool {
	return noderef.ValidProviderID(s.State.ProviderID) || s.State.InfrastructureReady.Or(false)
}

// remembers reports whether the stored phase is one of the given phases, which a Machine only reaches with its Node. The phase is the only
// record of that; it does not count after a change of the Node in this pass.
func (s *Scope) remembers(words ...phases.Phase) bool {
	return s.State.Node.Name != "" && s.Update.Node.Keeps() && slices.Contains(words, phases.Phase(s.State.Phase))
}
