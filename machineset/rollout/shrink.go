package rollout

import (
	"slices"

	"github.com/machinist-dev/machinist/machineset/scale"
)

// bounds are the limits for the deletions of one plan.
type bounds struct {
	// guarded: budget and slack count.
	guarded bool
	// budget is how many outdated Machines may be deleted so that enough stay alive, not counting unavailable current ones.
	budget int
	// slack is how many available Machines may be deleted.
	slack int
	// free is how many Machines may be deleted beyond budget and slack, because there are more than desired.
	free int
	// surplus is how many Machines of the current set must be deleted. alone: no other set has Machines, and then no more are deleted,
	// whatever their marks. cluster-autoscaler marks several, and lowers the replicas by one after each.
	surplus int
	alone   bool
}

// bounds returns the bounds of a rolling update.
func (p *plan) bounds() bounds {
	b := p.plain(len(p.current.alive) - p.desired)
	least := max(p.desired-p.Strategy.MaxUnavailable, 0)
	b.guarded, b.slack, b.budget = true, p.available-least, p.current.available-least+p.alive-len(p.current.alive)
	return b
}

// plain returns the bounds of a scale-down by a number of Machines.
func (p *plan) plain(free int) bounds {
	return bounds{free: max(free, 0), surplus: max(len(p.current.alive)-p.desired, 0)}
}

// Ranks of Machines that may be deleted, the lowest first; among equal ones the oldest set comes first, and the current one last.
const (
	rankMarkedUnavailable = iota
	rankMarked
	rankUnavailable
	rankOther
	rankPaused
)

// rank returns the rank of a Machine. A paused one is not replaced; a scale-down deletes it last, unless others have marked it.
func (p *plan) rank(m *Machine) int {
	switch {
	case m.Paused && (p.excess <= 0 || !foreign(m)):
		return rankPaused
	case foreign(m) && !usable(m):
		return rankMarkedUnavailable
	case foreign(m):
		return rankMarked
	case !usable(m):
		return rankUnavailable
	default:
		return rankOther
	}
}

// ranked returns the Machines of a set with a rank that may be deleted.
func (p *plan) ranked(s *set, r int) []*Machine {
	ranked := make([]*Machine, 0, len(s.alive))
	for _, m := range s.alive {
		if p.rank(m) == r && m.InPlace != Moved {
			ranked = append(ranked, m)
		}
	}
	return ranked
}

// shrink takes victims from outdated sets, and from the current one when it is too large or has Machines that others have marked.
func (p *plan) shrink(b bounds) {
	olds := p.outdated()
	held, blocked := false, false
	b.alone = !slices.ContainsFunc(olds, func(s *set) bool { return len(p.ranked(s, rankPaused)) < len(s.alive) })
	for r := rankMarkedUnavailable; r <= rankOther && (b.surplus > 0 || !b.alone); r++ {
		for _, s := range append(olds, p.current) {
			if r == rankOther && held {
				break
			}
			took := p.takeFrom(s, r, &b)
			blocked = blocked || !took
			held = held || !took && r == rankMarked
		}
	}
	p.takePaused(&b)
	for _, s := range olds {
		s.to = min(s.to, len(s.alive)-len(s.victims))
	}
	p.current.to = min(p.current.Replicas, max(p.desired, len(p.current.alive)-len(p.current.victims)))
	if n := len(p.current.victims); n > 0 {
		p.current.to = min(p.current.Replicas, len(p.current.alive)-n)
	}
	if blocked && b.guarded {
		p.blockUnavailable()
	}
}

// takePaused takes paused Machines if there are too many even without the other victims.
func (p *plan) takePaused(b *bounds) {
	sets := append(p.outdated(), p.current)
	for _, s := range sets {
		p.excess -= len(s.victims)
	}
	for _, s := range sets {
		for _, m := range p.first(p.ranked(s, rankPaused), len(s.alive)) {
			if p.excess <= 0 || b.guarded && usable(m) && b.slack <= 0 {
				continue
			}
			if usable(m) {
				b.slack--
			}
			p.excess--
			s.victims = append(s.victims, m)
		}
	}
}

// takeFrom takes victims of one rank from one set, as many as the bounds allow. It reports whether all were taken.
func (p *plan) takeFrom(s *set, r int, b *bounds) bool {
	limited := s == p.current && (b.alone || r >= rankUnavailable)
	ranked := p.ranked(s, r)
	most := len(ranked)
	if limited {
		most = min(most, b.surplus)
	}
	allowed := b.allow(most, s == p.current, r)
	if s == p.current {
		b.surplus -= min(b.surplus, allowed)
	}
	s.victims = append(s.victims, p.first(ranked, allowed)...)
	return allowed == most
}

// allow returns how many of n Machines of a rank may be deleted, and subtracts them from the bounds.
func (b *bounds) allow(n int, current bool, rank int) int {
	available, covered := rank == rankMarked || rank == rankOther, 0
	if b.guarded {
		covered = n
	}
	if b.guarded && (!current || available) {
		covered = min(n, max(b.budget, 0))
		if available {
			covered = min(covered, max(b.slack, 0))
			b.slack -= covered
		}
		b.budget -= covered
	}
	if b.guarded && !current && rank > rankMarked {
		return covered
	}
	if current {
		b.free = max(b.free-covered, 0) // they were surplus
	}
	extra := min(n-covered, max(b.free, 0))
	b.free -= extra
	return covered + extra
}

// first returns the first n Machines: those that an earlier plan has marked, and then in the order of deletion.
func (p *plan) first(all []*Machine, n int) []*Machine {
	return scale.First(p.Order, all, n, func(m *Machine) *scale.Machine { return &m.Machine })
}
