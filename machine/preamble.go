package machine

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

// pauseStep ends the pass of a Machine that asks to be left alone, also while it is being deleted.
func pauseStep(_ context.Context, s *Scope) (Result, error) {
	if !s.State.Paused() {
		s.Assert(condition(ConditionPaused, metav1.ConditionFalse, ReasonNotPaused, ""))
		return Result{}, nil
	}
	s.paused = true
	s.Assert(condition(ConditionPaused, metav1.ConditionTrue, ReasonPaused,
		s.env.kind.GVK.Kind+" has the "+contract.PausedAnnotation+" annotation"))
	return Result{Stop: true}, nil
}

// finalizerStep keeps the Machine until everything of it is gone.
func finalizerStep(_ context.Context, s *Scope) (Result, error) {
	if !slices.Contains(s.State.Finalizers, s.env.options.Finalizer) {
		s.SetFinalizers(append(slices.Clone(s.State.Finalizers), s.env.options.Finalizer))
	}
	return Result{}, nil
}

// ownersStep labels the Machine with its cluster. Before anything outside is touched, what was decided so far must be
// stored: a Machine without a finalizer could vanish and leave a machine behind.
func ownersStep(_ context.Context, s *Scope) (Result, error) {
	if s.State.ClusterName != "" {
		s.SetLabel(contract.ClusterNameLabel, s.State.ClusterName)
	}
	return Result{Checkpoint: !s.update.Finalizers.Keeps()}, nil
}
