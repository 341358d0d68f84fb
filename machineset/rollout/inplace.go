package rollout

import "slices"

// inPlace lets Machines be updated where they are. Those that were updated move to the current set; those beyond the desired number, which
// the surge has replaced, are deleted when no update is due any more.
func (p *plan) inPlace() {
	c := p.current
	moved := len(c.alive) - p.counted(c)
	for _, m := range c.alive {
		if m.InPlace != NotInPlace && m.InPlace != Selected {
			p.step(c, m, NotInPlace)
		}
	}
	due := p.desired - c.Replicas - moved
	selected, updated, failed := 0, 0, 0
	for _, s := range p.outdated() {
		for _, m := range s.alive {
			switch m.InPlace {
			case Updated:
				updated++
				p.step(s, m, Moved)
			case Selected:
				selected++
			case Failed:
				failed++
			case NotInPlace:
				p.step(s, m, Candidate)
			case Candidate, Moved:
			}
		}
	}
	due -= selected + updated
	switch {
	case moved > 0:
		c.to = c.Replicas + moved
	case due <= 0 && selected+updated == 0:
		p.rolling()
	default:
		if p.Strategy.Type == InPlaceAuto {
			p.selectInPlace(due, selected)
		}
		p.growBeside(due)
	}
	p.blockInPlace(selected, failed)
}

// growBeside creates Machines of the current set beside those that are to be updated: the surge, or what is missing.
func (p *plan) growBeside(due int) {
	if due > 0 && p.total() < p.desired+p.surge {
		p.grow(p.desired + p.surge)
	}
}

// selectInPlace selects candidates, unavailable ones first, while enough Machines stay available.
func (p *plan) selectInPlace(due, selected int) {
	b := p.bounds()
	b.budget -= selected
	for r := rankMarkedUnavailable; r <= rankOther; r++ {
		for _, s := range p.outdated() {
			ranked := slices.DeleteFunc(s.ranked(r), func(m *Machine) bool { return m.InPlace != Candidate })
			n := min(len(ranked), max(due, 0))
			n = b.allow(n, false, r)
			due -= n
			for _, m := range p.first(ranked, n) {
				p.step(s, m, Selected)
			}
		}
	}
}

func (p *plan) step(s *set, m *Machine, to InPlaceState) {
	p.out.InPlace = append(p.out.InPlace, InPlaceStep{Ref: Ref{m.Name, m.UID}, Set: s.UID, To: to})
}

func (p *plan) blockInPlace(selected, failed int) {
	if selected > 0 {
		p.block(ReasonUpdatingInPlace, count(selected, "Machine")+" being updated in place")
	} else if p.Strategy.Type == InPlaceManual && p.remaining() > 0 {
		p.block(ReasonWaitingForSelection, "waiting for a user to select Machines for their update in place")
	}
	if failed > 0 {
		p.block(ReasonUpdateFailed, "the update in place of "+count(failed, "Machine")+" failed")
	}
}
