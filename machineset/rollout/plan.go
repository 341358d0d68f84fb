package rollout

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Plan decides what a deployment does next. It is pure, and equal facts give equal decisions, whatever the order of sets and Machines.
// See the package's documentation for the bounds.
func Plan(f Facts) Decision {
	desired, known := f.Desired.Get()
	p := newPlan(f, desired)
	for _, s := range p.outdatedInUse() {
		p.out.Outdated = append(p.out.Outdated, s.UID)
	}
	switch {
	case !known:
		p.block(scale.ReplicasNotSet)
		return p.out
	case p.receive():
	case f.Paused:
		p.stand()
		if len(p.out.Outdated) > 0 || p.current == nil {
			p.block("the rollout is paused")
		}
	case len(f.Holds) > 0 && (p.current == nil || len(p.out.Outdated) > 0):
		p.stand()
		p.out.Blocked = append(p.out.Blocked, f.Holds...)
	default:
		p.rollOut()
	}
	p.finish()
	return p.out
}

// stand scales without a rollout.
func (p *plan) stand() {
	p.out.Stands = true
	p.scale()
}

// rollOut takes one step of the strategy. A set that is to be created takes part with no replicas.
func (p *plan) rollOut() {
	creating := p.current == nil
	if creating {
		p.current = &set{Set: &Set{}}
	}
	for _, s := range p.outdated() {
		// What the set does not have it does not create: a Machine in deletion is its own victim.
		s.to = min(s.Replicas, len(s.alive))
	}
	switch p.Strategy.Type {
	case OnDelete:
		p.onDelete()
	case Recreate:
		p.recreate()
	case InPlaceAuto, InPlaceManual:
		p.inPlace()
	default: // RollingUpdate
		p.rolling()
	}
	p.blockPaused()
	if creating {
		p.out.Create = contract.Some(p.current.to)
		p.current = nil
		if p.due {
			p.out.MadeFor = p.After
		}
	}
}

// rolling creates as many as the surge allows, and deletes as many as unavailability allows. Rule: Kubernetes' rolling update.
func (p *plan) rolling() {
	p.shrink(p.bounds())
	p.grow(p.desired + p.surge)
}

// onDelete creates in place of what others delete.
func (p *plan) onDelete() {
	excess := len(p.current.alive)
	for _, s := range p.outdated() {
		excess += len(s.alive)
	}
	p.shrink(p.plain(excess - p.desired))
	p.grow(p.desired)
	n := 0
	for _, s := range p.outdated() {
		if !p.isUpToDate(s) {
			n += len(s.alive) - len(s.victims)
		}
	}
	if n > 0 {
		p.block(count(n, "outdated Machine") + " must be deleted for the rollout to go on")
	}
}

// recreate deletes everything that is outdated, and creates when that is gone.
func (p *plan) recreate() {
	p.shrink(bounds{free: p.total(), surplus: max(len(p.current.alive)-p.desired, 0)})
	if p.total() > p.current.size {
		p.blockLeaving()
		return
	}
	p.grow(p.desired)
}

// grow raises the replicas of the current set while there are fewer than limit Machines of all sets.
func (p *plan) grow(limit int) {
	s := p.current
	if len(s.victims) > 0 || s.Replicas >= p.desired {
		return
	}
	room := min(limit-p.total(), p.desired-s.Replicas)
	switch {
	case s.Frozen:
		p.block("the set " + s.Name + " is frozen and creates no Machines")
	case room > 0:
		s.to += room
	default:
		p.blockLeaving()
	}
}

// finish makes the decision of what the sets have got.
func (p *plan) finish() {
	p.number()
	for _, s := range p.sets {
		if s.to == s.Replicas {
			continue
		}
		c := Change{Set: s.Name, UID: s.UID, From: s.Replicas, To: s.to}
		for _, m := range s.victims {
			c.Victims = append(c.Victims, scale.Victim{Name: m.Name, UID: m.UID})
		}
		p.out.Replicas = append(p.out.Replicas, c)
	}
	grows := func(c Change) int { return min(max(c.To-c.From, 0), 1) }
	slices.SortStableFunc(p.out.Replicas, func(a, b Change) int { return cmp.Compare(grows(a), grows(b)) })
	p.unmark()
	if p.complete() {
		p.out.Complete = true
		p.out.DeleteSets = p.expired()
	}
	slices.Sort(p.out.Blocked)
	if p.After.After(p.Now) {
		p.out.Wake = p.After
	}
}

// unmark names the Machines whose mark an earlier plan wanted and this one does not.
func (p *plan) unmark() {
	for _, s := range p.sets {
		for _, m := range s.alive {
			if m.Mine && m.Marked && !slices.Contains(s.victims, m) {
				p.out.Unmark = append(p.out.Unmark, Ref{m.Name, m.UID})
			}
		}
	}
	slices.SortFunc(p.out.Unmark, func(a, b Ref) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) })
}

// complete says whether nothing is left to do: a set beside the current one neither has Machines nor may get any.
func (p *plan) complete() bool {
	if p.current == nil || p.updates.current > 0 || len(p.out.Replicas) > 0 || len(p.out.InPlace) > 0 || len(p.out.Outdated) > 0 {
		return false
	}
	replicas, machines, available, reserved := 0, 0, 0, 0
	for _, s := range p.sets {
		if s.Deleting {
			continue
		}
		replicas += s.Replicas
		machines += len(s.Machines)
		available += s.available
		reserved += s.Reserved
	}
	return replicas == p.desired && machines == p.desired && available == p.desired && reserved == 0
}

// outdatedInUse are the sets beside the current one that have Machines or may get some. OnDelete leaves a second set with the template of
// the deployment as it is: its Machines are up to date.
func (p *plan) outdatedInUse() []*set {
	var used []*set
	for _, s := range p.sets {
		stays := s == p.current || p.Strategy.Type == OnDelete && p.isUpToDate(s) && !s.Deleting
		if !stays && (s.size > 0 || !s.Deleting && s.Replicas > 0) {
			used = append(used, s)
		}
	}
	return used
}

// Lacking returns the sets of which fewer Machines are observed than they have replicas, and whose missing Machines a decision counts on:
// those that shrink, and those in deletion while others grow, in the order of sets. Such a set has lost Machines, or they were not shown to
// the plan: find out which before you carry the decision out, because Machines that exist are no free places. sets are those of the
// decision's Facts; they are not changed.
func Lacking(sets []Set, d Decision) []Set {
	grows, shrinks := d.Create.Found(), map[types.UID]bool{}
	for _, change := range d.Replicas {
		grows = grows || change.To > change.From
		shrinks[change.UID] = change.To < change.From
	}
	var lacking []Set
	for _, s := range sets {
		if len(s.Machines) < s.Replicas && (shrinks[s.UID] || s.Deleting && grows) {
			lacking = append(lacking, s)
		}
	}
	return lacking
}
