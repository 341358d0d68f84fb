package deployment

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// deleteSetsStep requests the deletion of all sets, which delete their Machines. A deployment that is deleted without its dependents keeps
// them: the garbage collector removes the owner references.
func deleteSetsStep(ctx context.Context, s *Scope) (Result, error) {
	if s.IsOrphaning() {
		return Result{}, nil
	}
	var victims []scale.Victim
	for _, one := range s.observed {
		if one.Deleting.IsZero() && !s.children.Asked(one.UID) {
			victims = append(victims, scale.Victim{Name: one.Key.Name, UID: one.UID})
		}
	}
	if len(victims) == 0 {
		return Result{}, nil
	}
	return Result{}, s.children.Delete(ctx, victims, 0)
}

// historyStep deletes the old sets that the plan names, while nothing holds the deployment: each with its UID, and only while the API
// server has it as it was read, so that one that was scaled meanwhile stays.
func historyStep(ctx context.Context, s *Scope) (Result, error) {
	if len(s.plan.DeleteSets) == 0 || len(s.children.Holds) > 0 || s.behind() {
		return Result{}, nil
	}
	live, err := s.children.Live(ctx)
	if err != nil {
		return Result{}, err
	}
	victims := unchanged(s.plan.DeleteSets, s.observed, live)
	if len(victims) < len(s.plan.DeleteSets) {
		s.Requeue(pass.ConflictRetry)
	}
	if len(victims) == 0 {
		return Result{}, nil
	}
	return Result{}, s.children.Delete(ctx, victims, 0)
}

// unchanged are the sets to delete that the API server has as they were read.
func unchanged(due []rollout.Ref, observed []*set, live map[string]metav1.PartialObjectMetadata) (victims []scale.Victim) {
	for _, one := range due {
		at := slices.IndexFunc(observed, func(s *set) bool { return s.UID == one.UID })
		now, found := live[one.Name]
		if at >= 0 && found && now.UID == one.UID && now.ResourceVersion == observed[at].ResourceVersion {
			victims = append(victims, scale.Victim(one))
		}
	}
	return victims
}

// removeFinalizerStep removes the finalizer of a deployment in deletion that has no set any more, as the API server confirms, or whose sets
// stay.
func removeFinalizerStep(ctx context.Context, s *Scope) (Result, error) {
	if !s.IsOrphaning() {
		if len(s.observed) > 0 {
			return Result{}, nil
		}
		if gone, err := s.children.AllGone(ctx); err != nil || !gone {
			return Result{}, err
		}
	}
	return Result{}, s.Release(ctx)
}
