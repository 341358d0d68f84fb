package deployment

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// confirmed confirms with the API server, before a plan is carried out, that the cache has all sets (see children.Scope.ShowsAll). It also
// confirms that they are in the same state, once in the life of this process, because another process may have scaled them a moment ago,
// and whenever Machines may move to the current set, because the garbage collector deletes objects whose owner is missing. It reports false
// when the state differs, after which the pass is repeated soon, and when a set is missing, which holds the deployment.
func (s *Scope) confirmed(ctx context.Context) (bool, error) {
	moves := slices.Contains(slices.Collect(maps.Values(s.plan.InPlace)), rollout.Moved)
	if shows, err := s.children.ShowsAll(ctx); err != nil || !shows || s.mem.confirmed && !moves {
		return shows, err
	}
	live, err := s.children.Live(ctx)
	if err != nil {
		return false, err
	}
	s.mem.confirmed = len(live) == len(s.observed) && !slices.ContainsFunc(s.observed, func(one *set) bool {
		return live[one.Key.Name].ResourceVersion != one.ResourceVersion
	})
	if !s.mem.confirmed {
		s.Requeue(engine.ConflictRetry)
	}
	return s.mem.confirmed, nil
}

// confirmMachines confirms with the API server, once in a pass and before a plan is carried out, that the cache has the Machines of the
// sets in the same state: existing Machines must count, and Machines that have moved must not be created again. Their marks count too:
// cluster-autoscaler marks a Machine and then lowers the replicas, and the cache of deployments may show the second write before the cache
// of Machines shows the first. It reports false when the cache is behind, after which the pass is repeated soon, and when that lasts,
// which holds the deployment.
func (s *Scope) confirmMachines(ctx context.Context) (bool, error) {
	if s.listed {
		return s.current, nil
	}
	live := map[types.UID]*metav1.PartialObjectMetadata{}
	err := s.env.machines.EachLive(ctx, s.State.Key.Namespace, func(m *metav1.PartialObjectMetadata) { live[m.UID] = m })
	if err != nil {
		return false, err
	}
	var missing []string
	for _, one := range s.observed {
		for _, m := range one.machines {
			now, found := live[m.UID]
			if found && (!metav1.IsControlledBy(now, one.Object) || s.env.machines.SameMarks(m.Metadata, now.Annotations) != nil) {
				missing = append(missing, m.Key.Name)
			}
			delete(live, m.UID)
		}
	}
	for _, m := range live {
		if slices.ContainsFunc(s.observed, func(one *set) bool { return metav1.IsControlledBy(m, one.Object) }) {
			missing = append(missing, m.Name)
		}
	}
	shows, message, again := s.mem.lag.Judge(s.env.kinds.Machine.GVK.Kind, missing, s.Now)
	s.Requeue(again)
	if message != "" {
		s.plan.Blocked = append(s.plan.Blocked, "no set is scaled: "+message)
	}
	s.listed, s.current = true, shows
	return shows, nil
}
