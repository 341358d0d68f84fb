package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/machineset/scale"
)

// set is a Set with what a plan counts in it and decides about it.
type set struct {
	*Set
	// alive are Machines that stay unless a plan says otherwise: neither in deletion nor due to go because of an earlier plan.
	alive []*Machine
	// pending are Machines that the set deletes because of an earlier plan.
	pending []*Machine
	// available is how many of alive are available, the worst case where the set chooses among unmarked Machines.
	available int
	// size is how many Machines the set has or may have without another plan.
	size int
	// to is the number of replicas that this plan decides.
	to      int
	victims []*Machine
}

// usable says whether a Machine counts as available.
func usable(m *Machine) bool {
	return m.Available && m.InPlace != Selected && m.InPlace != Failed
}

// foreign says whether another client asks for the Machine to go first.
func foreign(m *Machine) bool { return m.Marked && !m.Mine }

// plan is a decision in the making.
type plan struct {
	Facts
	desired, surge, unavailable int
	sets                        []*set // by creation and name
	current                     *set   // nil while there is none
	due                         bool   // what is older than After is outdated
	excess                      int    // how many more Machines stay than there may be
	updates                     updates
	out                         Decision
}

func newPlan(f Facts, desired int) *plan {
	p := &plan{Facts: f, desired: max(desired, 0)}
	p.unavailable = min(max(f.Strategy.MaxUnavailable, 0), p.desired)
	if f.Order == "" || f.Order == scale.Random {
		p.Order = scale.Oldest
	}
	if p.desired > 0 && slices.Contains([]Type{RollingUpdate, InPlaceAuto, ""}, f.Strategy.Type) {
		p.surge = max(f.Strategy.MaxSurge, 0)
	}
	all := make([]set, len(f.Sets))
	for i := range f.Sets {
		all[i].Set = &f.Sets[i]
		p.sets = append(p.sets, &all[i])
		p.count(&all[i])
		p.excess += len(all[i].alive)
	}
	p.excess -= p.desired + p.surge
	slices.SortFunc(p.sets, func(a, b *set) int { return older(a.Set, b.Set) })
	p.due = f.due()
	for _, s := range p.sets {
		if p.isUpToDate(s) && !s.Deleting && (p.current == nil || p.current.Replicas == 0 && s.Replicas > 0) {
			p.current = s
		}
	}
	return p
}

// isUpToDate reports whether the Machines of a set have the template of the deployment.
func (p *plan) isUpToDate(s *set) bool { return s.Matches && (!p.due || s.madeSince(p.After)) }

// due says whether the rollout at the time of After has begun: that time has come, or a set was made for it already. Otherwise a process
// whose clock is behind that of an earlier leader would take the rollout back.
func (f *Facts) due() bool {
	if f.After.IsZero() {
		return false
	}
	after := f.After.Truncate(time.Second)
	return !f.Now.Before(f.After) || slices.ContainsFunc(f.Sets, func(s Set) bool { return !s.MadeFor.Before(after) })
}

func older(a, b *Set) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// Current returns the set that a plan takes for the current one, and false while there is none. It needs no Machines.
func Current(f Facts) (Set, bool) {
	if p := newPlan(f, 0); p.current != nil {
		return *p.current.Set, true
	}
	return Set{}, false
}

func (p *plan) count(s *set) {
	s.to, s.size = s.Replicas, len(s.Machines)+s.Reserved
	if s.Deleting {
		return
	}
	s.size = max(s.size, s.Replicas)
	s.alive = make([]*Machine, 0, len(s.Machines))
	for i := range s.Machines {
		if m := &s.Machines[i]; !m.Deleting {
			s.alive = append(s.alive, m)
		}
	}
	if going := p.counted(s) - s.Replicas; going > 0 {
		slices.SortStableFunc(s.alive, func(a, b *Machine) int { return cmp.Compare(unsettled(a), unsettled(b)) })
		s.pending, s.alive = p.first(s.alive[:p.counted(s)], going), s.alive[going:]
	}
	for _, m := range s.alive {
		if usable(m) {
			s.available++
		}
	}
	// Which unmarked Machines go is the set's choice: assume available ones.
	for _, m := range s.pending {
		if !m.Marked && !usable(m) && s.available > 0 {
			s.available--
		}
	}
}

// unsettled puts Machines last that the set does not count yet.
func unsettled(m *Machine) int {
	if m.InPlace == Moved {
		return 1
	}
	return 0
}

// counted is how many alive Machines the set counts: it does not count those that were moved to it before they were acknowledged.
func (p *plan) counted(s *set) int {
	n := len(s.alive)
	for _, m := range s.alive {
		n -= unsettled(m)
	}
	return n
}

// outdated are the sets that are not current and not being deleted.
func (p *plan) outdated() []*set {
	var olds []*set
	for _, s := range p.sets {
		if s != p.current && !s.Deleting {
			olds = append(olds, s)
		}
	}
	return olds
}

// total is how many Machines there are or may be, those in deletion and those not yet created included.
func (p *plan) total() int {
	n := 0
	for _, s := range p.sets {
		n += s.size
	}
	return n
}

// availableNow is how many Machines are available and stay.
func (p *plan) availableNow() int {
	n := 0
	for _, s := range p.sets {
		n += s.available
	}
	return n
}
