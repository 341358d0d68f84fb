package deployment

import (
	"context"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// deleteSetsStep requests the deletion of all sets, which delete their Machines. If the deployment is deleted without its dependents, the
// sets are retained: the garbage collector removes the owner references.
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

// historyStep deletes the old sets of the plan, unless the deployment is held: each only in the version that was read, so that a set that
// was scaled meanwhile is not deleted.
func historyStep(ctx context.Context, s *Scope) (engine.Result, error) {
	if len(s.children.Holds) > 0 || s.behind() {
		return engine.Result{}, nil
	}
	return engine.Result{}, s.children.Delete(ctx, s.plan.DeleteSets, 0)
}

// removeFinalizerStep removes the finalizer of a deployment in deletion when the API server confirms that it has no sets, or when its sets
// are orphaned.
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
