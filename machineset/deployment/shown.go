package deployment

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/children"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// askAgain is the interval of requests to the API server for Machines that the cache leaves out. The cause does not end without a change.
const askAgain = time.Minute

// notShown is what a process remembers of Machines that the cache did not show.
type notShown struct {
	name  string    // of one that the cache leaves out; empty without
	asked time.Time // when the API server was asked last
	since time.Time // when the first one was missing; zero while the cache shows all
}

// lacking are the sets of which the cache shows fewer Machines than they have replicas, and whose missing Machines the plan counts on, by
// UID, with the Machines that it shows: those that become smaller, and those in deletion while others grow. Such a set may have lost
// Machines, or the cache leaves some out: then they are no free places.
func (s *Scope) lacking() map[types.UID]map[string]types.UID {
	all := map[types.UID]map[string]types.UID{}
	lacks := func(of *set, replicas int) {
		if len(of.machines) >= replicas {
			return
		}
		all[of.UID] = map[string]types.UID{}
		for _, m := range of.machines {
			all[of.UID][m.State.Key.Name] = m.State.UID
		}
	}
	grows := s.plan.Create.Found()
	for _, change := range s.plan.Replicas {
		if grows = grows || change.To > change.From; change.To < change.From {
			lacks(s.setBy(change.UID), change.From)
		}
	}
	for _, of := range s.observed {
		if grows && !of.Deleting.IsZero() {
			lacks(of, int(of.State.Replicas.Or(0)))
		}
	}
	return all
}

// showsMachines asks the API server before a plan is carried out that counts on that. It reports false where the cache has yet to show a
// Machine, after which the pass is repeated soon, and where it leaves one out, which holds the deployment.
func (s *Scope) showsMachines(ctx context.Context) (bool, error) {
	lacking, mem := s.lacking(), &s.mem.notShown
	if len(lacking) == 0 {
		*mem = notShown{}
		return true, nil
	}
	if mem.name != "" && !s.Now.Before(mem.asked) && s.Now.Before(mem.asked.Add(askAgain)) {
		s.holdNotShown(mem.name)
		return false, nil
	}
	facts := scale.CacheFacts{Seen: s.seen, Shown: map[string]types.UID{}}
	for _, shown := range lacking {
		maps.Copy(facts.Shown, shown)
	}
	err := s.env.machines.EachLive(ctx, s.State.Key.Namespace, func(m *metav1.PartialObjectMetadata) {
		if owner := metav1.GetControllerOfNoCopy(m); owner != nil && lacking[owner.UID] != nil {
			facts.Live = append(facts.Live, scale.Live{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion})
		}
	})
	if err != nil {
		return false, err
	}
	if !mem.since.IsZero() {
		facts.Since = max(s.Now.Sub(mem.since), 0)
	}
	verdict, missing := scale.Compare(facts)
	switch verdict {
	case scale.ShowsAll:
		*mem = notShown{}
		return true, nil
	case scale.Behind:
		s.Requeue(pass.BehindRetry)
	case scale.LeavesOut:
		mem.name, mem.asked = missing[0], s.Now
		s.holdNotShown(missing[0])
	}
	if mem.since.IsZero() {
		mem.since = s.Now
	}
	return false, nil
}

func (s *Scope) holdNotShown(name string) {
	hold := scale.Hold{Reason: children.NotShown("Machine"), Message: fmt.Sprintf("no MachineSet is scaled: %s %s exists, and the cache does "+
		"not show it: have the cache of %[1]s objects select it (labels, fields, namespaces), or look for a webhook that takes its labels away",
		s.env.kinds.Machine.GVK.Kind, name)}
	s.plan.Blocked = append(s.plan.Blocked, hold)
	s.Requeue(askAgain)
}
