package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/machineset/scale"
)

// number decides the revision of the current set, or of the one to create: one that is higher than that of every other, or the one it has
// if that is the highest.
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

// expired are the outdated sets beyond the history limit, the oldest revision first.
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

// MadeForAnnotation of a set holds the value of Facts.After that was due when its deployment made it, in RFC 3339. The API server dates the
// set by another clock, by which that time may be still to come. Without the annotation, a set counts by its creation alone.
const MadeForAnnotation = "machinist.dev/made-for-rollout-after"

// ParseMadeFor returns what a set was made for by its annotations, zero without a readable time.
func ParseMadeFor(annotations map[string]string) time.Time {
	at, _ := time.Parse(time.RFC3339, annotations[MadeForAnnotation]) // zero with an error
	return at
}
