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

// confirmed asks the API server, before a plan is carried out, whether the cache shows all sets, see children.Scope.ShowsAll, before a set
// is created or raised; and whether it shows them as they are, once in the life of this process, because another process may have scaled
// them a moment ago, and before a Machine moves to the current set, because the garbage collector deletes what a missing owner controls. It
// reports false where it does not, after which the pass is repeated soon, and where it leaves a set out, which holds the deployment.
func (s *Scope) confirmed(ctx context.Context) (bool, error) {
	asIs := s.mem.confirmed && !slices.Contains(slices.Collect(maps.Values(s.plan.InPlace)), rollout.Moved)
	if asIs && !s.raises() && !s.plan.Create.Found() {
		return true, nil
	}
	if shows, err := s.children.ShowsAll(ctx); err != nil || !shows || asIs {
		return shows, err
	}
	live, err := s.children.Live(ctx)
	if err != nil {
		return false, err
	}
	same := len(live) == len(s.observed)
	for _, one := range s.observed {
		now, found := live[one.Key.Name]
		same = same && found && now.ResourceVersion == one.ResourceVersion
	}
	if s.mem.confirmed = same; !same {
		s.Requeue(engine.ConflictRetry)
	}
	return same, nil
}

// raises reports whether the plan gives a set more Machines.
func (s *Scope) raises() bool {
	return slices.ContainsFunc(s.plan.Replicas, func(c rollout.Change) bool { return c.To > c.From })
}

// showsMachines asks the API server before a plan is carried out that counts on that. It reports false where the cache has yet to show a
// Machine, after which the pass is repeated soon, and where it leaves one out, which holds the deployment.
func (s *Scope) showsMachines(ctx context.Context) (bool, error) {
	moves := s.inPlace() && s.raises() // no number of replicas has a Machine that has moved and was not received
	of, shown := map[types.UID]bool{}, map[types.UID]bool{}
	for _, set := range s.facts.Sets {
		of[set.UID] = moves || slices.Contains(s.plan.Lacking, set.UID)
		for _, m := range set.Machines {
			shown[m.UID] = true
		}
	}
	var missing []string
	var err error
	if moves || len(s.plan.Lacking) > 0 {
		err = s.env.machines.EachLive(ctx, s.State.Key.Namespace, func(m *metav1.PartialObjectMetadata) {
			if owner := metav1.GetControllerOfNoCopy(m); owner != nil && of[owner.UID] && !shown[m.UID] {
				missing = append(missing, m.Name)
			}
		})
	}
	if err != nil {
		return false, err
	}
	shows, message, again := s.mem.lag.Judge(s.env.kinds.Machine.GVK.Kind, missing, s.Now)
	s.Requeue(again)
	if message != "" {
		s.plan.Blocked = append(s.plan.Blocked, "no set is scaled: "+message)
	}
	return shows, nil
}
