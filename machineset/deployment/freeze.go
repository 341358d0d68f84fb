package deployment

import (
	"context"
	"slices"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// StepFreeze is the name of the step that FreezeStep returns.
const StepFreeze = "freeze"

// FreezeStep returns a step that freezes a deployment while one of its sets is frozen (see scale.FollowFreeze): it writes the label, the
// condition Frozen and an event. machineset.FreezeStep freezes the sets. Insert it behind StepSets:
//
//	steps := deployment.Steps().InsertAfter(deployment.StepSets, deployment.FreezeStep())
func FreezeStep() Step {
	return Step{Name: StepFreeze, On: engine.InRunning, Run: func(_ context.Context, s *Scope) (engine.Result, error) {
		if !s.children.Known {
			return engine.Result{}, nil
		}
		group, frozen := s.env.kinds.Deployment.GVK.Group, s.frozenSets()
		freezing, requested := scale.FreezingOf(group, &s.State.Metadata, s.Stored), scale.UnfreezeRequested(group, &s.State.Metadata)
		verdict := scale.FollowFreeze(freezing, requested, frozen)
		s.children.Freeze(&s.Update.ReplicatedUpdate, freezing, verdict, requested && len(frozen) == 0)
		return engine.Result{Checkpoint: verdict.Action != scale.Keep}, nil
	}}
}

// frozenSets returns the sorted names of the sets that have a freeze label.
func (s *Scope) frozenSets() (names []string) {
	for _, one := range s.observed {
		if scale.FreezingOf(s.env.kinds.Set.GVK.Group, one.Metadata, one.State.Conditions) != scale.NotFrozen {
			names = append(names, one.Key.Name)
		}
	}
	slices.Sort(names)
	return names
}
