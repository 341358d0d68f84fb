package rollout

import "slices"

// updates counts updates in place: selected and updated Machines of outdated sets, failed Machines of all sets, and Machines of the current
// set that must be updated to it again. due is how many Machines the current set lacks.
type updates struct{ selected, updated, failed, current, due int }

// receive makes sets count the Machines that were moved to them, and reports whether one does not yet: then nothing else is planned.
func (p *plan) receive() (waits bool) {
	for _, s := range p.sets {
		for _, m := range s.alive {
			if m.InPlace == Moved {
				s.to++
				waits = true
			} else if m.InPlace == Received {
				p.step(m, NotInPlace)
			}
		}
	}
	return waits
}

// inPlace updates Machines without replacing them. Updated Machines move to the current set. Those beyond the desired number, which the
// surge has replaced, are deleted when no update is due any more.
func (p *plan) inPlace() {
	if c := p.current; c.Frozen && c.Replicas > len(c.alive) { // a Machine that has moved away is not created again
		c.to = len(c.alive)
		return
	}
	u := &p.updates
	u.due = p.desired - p.current.Replicas
	for _, s := range p.outdated() {
		for _, m := range s.alive {
			p.bring(s, m)
		}
	}
	for _, m := range p.current.alive {
		p.keep(m)
	}
	u.due -= u.selected + u.updated
	p.selectInPlace()
	switch {
	case p.excess > 0: // a scale-down does not wait for updates
		p.shrink(p.plain(p.excess))
	case u.due > 0 && p.total < p.desired+p.surge: // the surge, or missing Machines
		p.grow(p.desired + p.surge)
	case u.due <= 0 && u.selected+u.updated+u.current == 0:
		p.rolling()
	}
	p.blockInPlace()
}

// bring takes a Machine of an outdated set one step towards the current one. A state for another set no longer counts, but an update in
// progress is finished first.
func (p *plan) bring(s *set, m *Machine) {
	switch {
	case m.InPlace == Selected, m.InPlace == Updated && m.Paused:
		p.updates.selected++
	case m.Paused:
	case p.selectable(s, m):
		if (m.InPlace != Candidate || p.stale(m)) && p.Strategy.Type == InPlaceManual && p.current.Name != "" {
			p.step(m, Candidate)
		}
	case m.InPlace == Failed:
		p.updates.failed++
	case m.InPlace == Updated:
		p.updates.updated++
		p.step(m, Moved)
	}
}

// keep decides about a Machine of the current set.
func (p *plan) keep(m *Machine) {
	switch {
	case p.selectable(p.current, m), m.InPlace == Selected:
		p.updates.current++
	case m.InPlace == Failed:
		p.updates.failed++
	case m.InPlace == Updated || m.InPlace == Candidate:
		p.step(m, NotInPlace)
	}
}

// stale reports whether the state of a Machine is for another set than the current one.
func (p *plan) stale(m *Machine) bool {
	return p.current.Name == "" || m.InPlaceSet != p.current.Name
}

// selectable reports whether a Machine can be selected: a Machine of an outdated set, unless a health check has failed and its set must
// replace it, or a Machine of the current set that was, or may have been, updated to another template.
func (p *plan) selectable(s *set, m *Machine) bool {
	if s == p.current {
		return p.stale(m) && (m.InPlace == Updated || m.InPlace == Failed)
	}
	return !m.Ailing && (m.InPlace == NotInPlace || m.InPlace == Candidate || m.InPlace != Selected && p.stale(m))
}

// selectInPlace selects Machines, available ones first, while enough stay available: as many as are due, and those that must be updated
// again. A Machine that was unavailable before the plan does not delay the others.
func (p *plan) selectInPlace() {
	b, current := p.bounds(), p.current
	b.budget -= p.updates.selected
	for _, s := range p.outdated() {
		for _, m := range s.alive {
			if !m.Available && (m.InPlace == NotInPlace || m.InPlace == Candidate) {
				b.slack++
			}
		}
	}
	for _, r := range []int{rankMarked, rankOther, rankMarkedUnavailable, rankUnavailable} {
		for _, s := range p.outdated() {
			ranked := slices.DeleteFunc(p.ranked(s, r), func(m *Machine) bool { return !p.selectable(s, m) })
			n := min(len(ranked), max(p.updates.due, 0))
			if p.Strategy.Type == InPlaceManual || current.Name == "" {
				n = 0
			}
			n = b.allow(n, false, r)
			p.updates.due -= n
			p.choose(ranked, n)
		}
		ranked := slices.DeleteFunc(p.ranked(current, r), func(m *Machine) bool { return !p.selectable(current, m) })
		n := len(ranked)
		if r == rankMarked || r == rankOther {
			n = b.allow(n, false, r)
		}
		p.choose(ranked, n)
	}
}

// choose selects the first n Machines.
func (p *plan) choose(ranked []*Machine, n int) {
	for _, m := range p.first(ranked, n) {
		p.step(m, Selected)
		p.updates.selected++
	}
}

func (p *plan) step(m *Machine, to InPlaceState) { p.out.InPlace[m.UID] = to }

func (p *plan) blockInPlace() {
	u := p.updates
	if n := u.selected + u.current; n > 0 {
		p.block(count(n, "Machine") + " being updated in place")
	} else if p.Strategy.Type == InPlaceManual && len(p.out.Outdated) > 0 {
		p.block("waiting for a user to select Machines for their update in place")
	}
	p.wait("to be replaced: a health check has failed", func(s *set, m *Machine) bool { return m.Ailing && s != p.current && !s.loses(m) })
	if u.failed > 0 {
		p.block("the update in place of " + count(u.failed, "Machine") + " failed")
	}
}
