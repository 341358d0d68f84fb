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
		group, frozen := s.env.kinds.Deployment.GVK.Group, s.frozenSets()
		freezing, asked := safety.FreezingOf(group, &s.State.Metadata, s.Stored), safety.AsksToUnfreeze(group, &s.State.Metadata)
		verdict := safety.Follow(freezing, asked, frozen)
		s.children.Freeze(&s.Update.ReplicatedUpdate, freezing, verdict, asked && len(frozen) == 0)
		return engine.Result{Checkpoint: verdict.Action != safety.Keep}, nil
	}}
}

// frozenSets are the names of the sets that have a freeze label, sorted.
func (s *Scope) frozenSets() (names []string) {
	for _, one := range s.observed {
		if safety.FreezingOf(s.env.kinds.Set.GVK.Group, one.Metadata, one.State.Conditions) != safety.NotFrozen {
			names = append(names, one.Key.Name)
		}
	}
	slices.Sort(names)
	return names
}
