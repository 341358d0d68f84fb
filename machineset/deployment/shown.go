package deployment

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// askAgain is the interval of requests to the API server for Machines that the cache leaves out. The cause does not end without a change.
const askAgain = time.Minute

// confirmed asks the API server, before a plan is carried out, whether the cache shows all sets, see children.Scope.ShowsAll, and once in
// the life of this process whether it shows them as they are: another process may have scaled them a moment ago. It reports false where it
// does not, after which the pass is repeated soon, and where it leaves a set out, which holds the deployment.
func (s *Scope) confirmed(ctx context.Context) (bool, error) {
	if shows, err := s.children.ShowsAll(ctx); err != nil || !shows {
		s.plan.Blocked = append(s.plan.Blocked, s.children.Holds...) // it had none when the plan was made
		return false, err
	}
	if s.mem.confirmed {
		return true, nil
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

// showsMachines asks the API server before a plan is carried out that counts on that. It reports false where the cache has yet to show a
// Machine, after which the pass is repeated soon, and where it leaves one out, which holds the deployment.
func (s *Scope) showsMachines(ctx context.Context) (bool, error) {
	lacking := rollout.Lacking(s.facts.Sets, s.plan)
	if len(lacking) == 0 {
		s.mem.missing = time.Time{}
		return true, nil
	}
	facts := scale.CacheFacts{Seen: s.seen, Shown: map[string]types.UID{}}
	of := map[types.UID]bool{}
	for _, set := range lacking {
		of[set.UID] = true
		for _, m := range set.Machines {
			facts.Shown[m.Name] = m.UID
		}
	}
	err := s.env.machines.EachLive(ctx, s.State.Key.Namespace, func(m *metav1.PartialObjectMetadata) {
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil && of[owner.UID] {
			facts.Live = append(facts.Live, scale.Live{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion})
		}
	})
	if err != nil {
		return false, err
	}
	if s.mem.missing.IsZero() {
		s.mem.missing = s.Now
	}
	facts.Since = s.Now.Sub(s.mem.missing)
	verdict, missing := scale.Compare(facts)
	switch verdict {
	case scale.ShowsAll:
		s.mem.missing = time.Time{}
		return true, nil
	case scale.Behind:
		s.Requeue(engine.BehindRetry)
	case scale.LeavesOut:
		s.plan.Blocked = append(s.plan.Blocked, scale.Hold{Reason: children.NotShown("Machine"), Message: fmt.Sprintf("no MachineSet is "+
			"scaled: %s %s exists, and the cache does not show it: have the cache of %[1]s objects select it (labels, fields, namespaces), or "+
			"look for a webhook that takes its labels away", s.env.kinds.Machine.GVK.Kind, missing[0])})
		s.Requeue(askAgain)
	}
	return false, nil
}
