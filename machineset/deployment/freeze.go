package deployment

import (
	"context"
	"slices"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// StepFreeze is the name of the step that FreezeStep returns.
const StepFreeze = "freeze"

// FreezeStep returns a step that freezes a deployment while one of its sets is frozen, as safety.Follow decides: it writes the label, the
// condition Frozen and an event. The sets are frozen by machineset.FreezeStep. Put it behind StepSets:
//
//	steps := deployment.Steps().InsertAfter(deployment.StepSets, deployment.FreezeStep())
func FreezeStep() Step {
	return Step{Name: StepFreeze, On: engine.InRunning, Run: func(_ context.Context, s *Scope) (engine.Result, error) {
		if !s.children.Known {
			return engine.Result{}, nil
		}
		gvk, sets := s.env.kinds.Deployment.GVK, s.env.kinds.Set.GVK.Group
		facts := safety.Deployment{
			Freezing: safety.FreezingOf(gvk.Group, &s.State.Metadata, s.Stored), Unfreeze: safety.AsksToUnfreeze(gvk.Group, &s.State.Metadata),
		}
		for _, one := range s.observed {
			if safety.FreezingOf(sets, one.Metadata, one.State.Conditions) != safety.NotFrozen {
				facts.Frozen = append(facts.Frozen, one.Key.Name)
			}
		}
		slices.Sort(facts.Frozen)
		verdict := safety.Follow(facts)
		s.children.Freeze(&s.Update.ReplicatedUpdate, facts.Freezing, verdict, facts.Unfreeze && len(facts.Frozen) == 0)
		return engine.Result{Checkpoint: verdict.Action != safety.Keep}, nil
	}}
}
