package rollout

import (
	"cmp"
	"slices"

	"github.com/machinist-dev/machinist/machineset/scale"
)

// number sets the revision of the current set, or of the one to create: its own if that is the highest, or else one above the highest.
func (p *plan) number() {
	highest := int64(0)
	for _, s := range p.sets {
		if s != p.current {
			highest = max(highest, s.Revision)
		}
	}
	p.out.Revision = highest + 1
	if c := p.current; c != nil {
		p.out.Current.Name, p.out.Current.UID = c.Name, c.UID
		p.out.Revision = max(c.Revision, p.out.Revision)
	}
}

// expired returns the outdated sets beyond the history limit, the oldest revision first.
func (p *plan) expired() (victims []scale.Victim) {
	limit, limited := p.HistoryLimit.Get()
	empty := slices.DeleteFunc(p.outdated(), func(s *set) bool { return s.size > 0 })
	slices.SortStableFunc(empty, func(a, b *set) int { return cmp.Compare(a.Revision, b.Revision) })
	for i, s := range empty {
		if limited && i < len(empty)-max(limit, 0) {
			victims = append(victims, scale.Victim{Name: s.Name, UID: s.UID})
		}
	}
	return victims
}
