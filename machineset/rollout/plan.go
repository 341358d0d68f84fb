package rollout

import (
	"slices"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Plan decides what a deployment does next. It is pure, and equal facts give equal decisions, whatever the order of sets and Machines.
// See the package's documentation for the bounds.
func Plan(f Facts) Decision {
	p := newPlan(f)
	holds, unfinished := p.holds(), p.current == nil || len(p.out.Outdated) > 0
	switch {
	case !f.Desired.Found():
		p.block(scale.ReplicasNotSet)
		return p.out
	case p.receive():
	case f.Paused:
		p.out.Stalled = true
		p.scale()
		if unfinished {
			p.block("the rollout is paused")
		}
	case len(holds) > 0 && unfinished:
		p.out.Stalled = len(p.Holds) > 0 || p.current.Stuck
		p.scale()
		p.out.Blocked = append(p.out.Blocked, holds...)
	default:
		p.rollOut()
	}
	p.finish()
	return p.out
}

// holds returns why the current set, or the one to create, creates no Machines: then no Machine of another set is deleted for it.
func (p *plan) holds() []string {
	holds := slices.Clone(p.Holds)
	switch c := p.current; {
	case c == nil:
	case c.Stuck:
		holds = append(holds, "the set "+c.Name+" cannot create Machines")
	case c.Unseen:
		holds = append(holds, "waiting for the controller of the set "+c.Name)
	}
	return holds
}

// rollOut takes one step of the strategy. A set that is to be created counts with no replicas.
func (p *plan) rollOut() {
	creating := p.current == nil
	if creating {
		p.current = &set{Set: &Set{}}
	}
	for _, s := range p.outdated() {
		// A set does not create Machines that it lacks: a Machine in deletion is its own victim.
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
	if p.Strategy.Type != OnDelete {
		p.wait("to be resumed: paused Machines are neither replaced nor updated", func(s *set, m *Machine) bool {
			return m.Paused && s != p.current && !s.loses(m) && !slices.Contains(s.victims, m)
		})
	}
	if creating {
		p.out.Create = contract.Some(p.current.to)
		p.current, p.out.MadeFor = nil, p.since
	}
}

// rolling creates as many Machines as the surge allows, and deletes as many as unavailability allows. Rule: Kubernetes' rolling update.
func (p *plan) rolling() {
	p.shrink(p.bounds())
	p.grow(p.desired + p.surge)
}

// onDelete creates replacements for Machines that others delete.
func (p *plan) onDelete() {
	p.shrink(p.plain(p.excess))
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

// recreate deletes all outdated Machines, and creates others when those are gone.
func (p *plan) recreate() {
	p.shrink(bounds{free: p.total, surplus: max(len(p.current.alive)-p.desired, 0)})
	if p.total > p.current.size {
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
	room := min(limit-p.total, p.desired-s.Replicas)
	switch {
	case s.Frozen:
		p.block("the set " + s.Name + " is frozen and creates no Machines")
	case room > 0:
		s.to += room
	default:
		p.blockLeaving()
	}
}

// finish builds the decision from the changes of the sets.
func (p *plan) finish() {
	for _, s := range p.sets {
		for _, m := range s.alive {
			if m.Mine && m.Marked && !slices.Contains(s.victims, m) {
				p.out.Unmark[m.UID] = true
			}
		}
		if s.to == s.Replicas {
			continue
		}
		c := Change{Set: s.Name, UID: s.UID, From: s.Replicas, To: s.to}
		for _, m := range s.victims {
			c.Victims = append(c.Victims, scale.Victim{Name: m.Name, UID: m.UID})
		}
		p.out.Replicas = append(p.out.Replicas, c)
	}
	slices.SortStableFunc(p.out.Replicas, func(a, b Change) int { return scale.TrueFirst(a.To < a.From, b.To < b.From) })
	if p.complete() {
		p.out.Complete = true
		p.out.DeleteSets = p.expired()
	}
	slices.Sort(p.out.Blocked)
}

// complete reports whether nothing is left to do: no other set than the current one has Machines or may get any, and there are as many
// available Machines as desired, with none in deletion, reserved or surplus.
func (p *plan) complete() bool {
	return p.current != nil && p.updates.current == 0 && len(p.out.Replicas)+len(p.out.InPlace)+len(p.out.Outdated) == 0 &&
		p.total == p.desired && p.available == p.desired
}
