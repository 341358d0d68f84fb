package rollout

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// set is a Set with the counts and decisions of a plan.
type set struct {
	*Set
	// alive are Machines that stay unless a plan decides otherwise: neither in deletion nor victims of an earlier plan.
	alive []*Machine
	// pending are Machines that the set deletes because of an earlier plan.
	pending []*Machine
	// available is how many of alive are available, in the worst case of the set's choice among unmarked Machines.
	available int
	// size is how many Machines the set has or may have without another plan; marked is how many of alive others have marked.
	size, marked int
	// to is the number of replicas that this plan sets.
	to      int
	victims []*Machine
}

// usable reports whether a Machine counts as available.
func usable(m *Machine) bool {
	return m.Available && m.InPlace != Selected && m.InPlace != Failed
}

// foreign reports whether another client has marked the Machine to be deleted first.
func foreign(m *Machine) bool { return m.Marked && !m.Mine }

// plan is a decision in the making.
type plan struct {
	Facts
	desired, surge int
	sets           []*set    // by creation and name
	current        *set      // nil while there is none
	since          time.Time // sets that were neither created since nor made for it are outdated; zero for none
	// total is how many Machines there are or may be, including those in deletion and those not yet created; alive and available are the sums
	// of all sets. excess is how many more Machines stay than allowed.
	total, alive, available, excess int
	updates                         updates
	out                             Decision
}

func newPlan(f Facts) *plan {
	p := &plan{Facts: f, desired: max(f.Desired.Or(0), 0)}
	p.out.Unmark, p.out.InPlace = map[types.UID]bool{}, map[types.UID]InPlaceState{}
	if p.desired > 0 && slices.Contains([]Type{RollingUpdate, InPlaceAuto, ""}, f.Strategy.Type) {
		p.surge = max(f.Strategy.MaxSurge, 0)
	}
	all := make([]set, len(f.Sets))
	for i := range f.Sets {
		all[i].Set = &f.Sets[i]
		p.sets = append(p.sets, &all[i])
		p.count(&all[i])
		p.total += all[i].size
		p.alive += len(all[i].alive)
		p.available += all[i].available
	}
	p.excess = p.alive - p.desired - p.surge
	slices.SortFunc(p.sets, func(a, b *set) int { return older(a.Set, b.Set) })
	p.since = f.since()
	for _, s := range p.sets {
		if p.isUpToDate(s) && !s.Deleting && (p.current == nil || p.current.Replicas == 0 && s.Replicas > 0) {
			p.current = s
		}
	}
	p.number()
	for _, s := range p.sets {
		if p.isOutdated(s) {
			p.out.Outdated = append(p.out.Outdated, s.UID)
		}
	}
	return p
}

// isOutdated reports whether a set other than the current one has Machines or may get some. With OnDelete, a second set with the template
// of the deployment is not outdated: its Machines are up to date.
func (p *plan) isOutdated(s *set) bool {
	stays := s == p.current || p.Strategy.Type == OnDelete && p.isUpToDate(s) && !s.Deleting
	return !stays && (s.size > 0 || !s.Deleting && s.Replicas > 0)
}

// isUpToDate reports whether the Machines of a set have the template of the deployment.
func (p *plan) isUpToDate(s *set) bool {
	return s.Matches && (!s.Created.Before(p.since) || !s.MadeFor.Before(p.since))
}

// since returns After, to the second, once the rollout at that time has begun: the time has come, or a set was already made for it.
// Otherwise a process whose clock is behind that of an earlier leader would undo the rollout.
func (f *Facts) since() time.Time {
	after := f.After.Truncate(time.Second)
	if f.Now.Before(f.After) && !slices.ContainsFunc(f.Sets, func(s Set) bool { return !s.MadeFor.Before(after) }) {
		return time.Time{}
	}
	return after
}

func older(a, b *Set) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func (p *plan) count(s *set) {
	s.to, s.size = s.Replicas, len(s.Machines)+s.Reserved
	if s.Deleting {
		return
	}
	s.size = max(s.size, s.Replicas)
	s.alive = make([]*Machine, 0, len(s.Machines))
	var moved []*Machine // the set does not count Machines that were moved to it before they were acknowledged
	for i := range s.Machines {
		switch m := &s.Machines[i]; {
		case m.Deleting:
		case m.InPlace == Moved:
			moved = append(moved, m)
		default:
			s.alive = append(s.alive, m)
		}
	}
	if going := len(s.alive) - s.Replicas; going > 0 {
		s.pending, s.alive = p.first(s.alive, going), s.alive[going:]
	}
	s.alive = append(s.alive, moved...)
	for _, m := range s.alive {
		if usable(m) {
			s.available++
		}
		if foreign(m) {
			s.marked++
		}
	}
	// The set chooses among unmarked Machines: assume that it deletes available ones.
	for _, m := range s.pending {
		if !m.Marked && !usable(m) && s.available > 0 {
			s.available--
		}
	}
}

// outdated returns the sets that are not current and not being deleted.
func (p *plan) outdated() []*set {
	var olds []*set
	for _, s := range p.sets {
		if s != p.current && !s.Deleting {
			olds = append(olds, s)
		}
	}
	return olds
}
