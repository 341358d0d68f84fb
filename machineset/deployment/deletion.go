package deployment

import (
	"context"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// deleteSetsStep requests the deletion of all sets, which delete their Machines. A deployment that is deleted without its dependents keeps
// them: the garbage collector removes the owner references.
func deleteSetsStep(ctx context.Context, s *Scope) (engine.Result, error) {
	if s.IsOrphaning() {
		return engine.Result{}, nil
	}
	var victims []scale.Victim
	for _, one := range s.observed {
		if one.Deleting.IsZero() {
			victims = append(victims, scale.Victim{Name: one.Key.Name, UID: one.UID})
		}
	}
	return engine.Result{}, s.children.Delete(ctx, victims, 0)
}

// historyStep deletes the old sets that the plan names, while nothing holds the deployment: each only as it was read, so that one that was
// scaled meanwhile stays.
func historyStep(ctx context.Context, s *Scope) (engine.Result, error) {
	if len(s.children.Holds) > 0 || s.behind() {
		return engine.Result{}, nil
	}
	return engine.Result{}, s.children.Delete(ctx, s.plan.DeleteSets, 0)
}

// removeFinalizerStep removes the finalizer of a deployment in deletion that has no set any more, as the API server confirms, or whose sets
// stay.
func removeFinalizerStep(ctx context.Context, s *Scope) (engine.Result, error) {
	if !s.IsOrphaning() {
		if len(s.observed) > 0 {
			return engine.Result{}, nil
		}
		if gone, err := s.children.AllGone(ctx); err != nil || !gone {
			return engine.Result{}, err
		}
	}
	return engine.Result{}, s.Release(ctx)
}
