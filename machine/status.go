package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// conditionsStep derives what summarises the rest. It leaves a paused Machine's conditions as they are.
func conditionsStep(_ context.Context, s *Scope) (Result, error) {
	if s.paused {
		return Result{}, nil
	}
	if s.State.Deleting.IsZero() {
		s.Assert(condition(ConditionDeleting, metav1.ConditionFalse, ReasonNotDeleting, ""))
	}
	all := make([]metav1.Condition, 0, len(s.stored)+len(s.asserted))
	all = append(append(all, s.asserted...), s.stored...) // the first of a type counts
	s.Assert(summarise(all))
	return Result{}, nil
}

// phaseStep computes the phase.
func phaseStep(_ context.Context, s *Scope) (Result, error) {
	if s.paused {
		return Result{}, nil
	}
	s.SetPhase(string(phases.Compute(phases.Facts{
		Deleting:            !s.State.Deleting.IsZero(),
		BootstrapReady:      s.State.BootstrapReady.Or(false),
		InfrastructureReady: s.State.InfrastructureReady.Or(false),
		HasProviderID:       noderef.ValidProviderID(s.State.ProviderID),
		HasNode:             s.State.Node.Name != "",
	}).Phase))
	return Result{}, nil
}
