package rollout

import (
	"cmp"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/machineset/scale"
)

// Rollback returns the set that has a revision, or for 0 the one with the highest revision before that of the current set. While no set
// with a revision Matches, that is the highest of all: the current set is not made yet, or not numbered. Rollback reports false when there
// is none. Sets in deletion do not count.
func Rollback(sets []Set, revision int64) (Set, bool) {
	var known []Set
	for i := range sets {
		if !sets[i].Deleting && sets[i].Revision > 0 {
			known = append(known, sets[i])
		}
	}
	slices.SortFunc(known, func(a, b Set) int { return cmp.Or(cmp.Compare(b.Revision, a.Revision), older(&a, &b)) })
	// Where a set matches, the newest of the others would be wrong: a request that is repeated after a lost answer, before the set it went
	// back to has a new number, would return to the template that it has left.
	newest := revision == 0 && !slices.ContainsFunc(known, func(s Set) bool { return s.Matches })
	for i := range known {
		if newest || revision == known[i].Revision || revision == 0 && known[i].Revision < known[0].Revision {
			return known[i], true
		}
	}
	return Set{}, false
}

// number decides the revision of the current set: one that is higher than that of every other, or the one it has if that is the highest.
func (p *plan) number() {
	highest := int64(0)
	for _, s := range p.sets {
		if s != p.current {
			highest = max(highest, s.Revision)
		}
	}
	switch {
	case p.current != nil:
		p.out.Current = Ref{p.current.Name, p.current.UID}
		p.out.Revision = max(p.current.Revision, highest+1)
	case p.out.Create.Found():
		p.out.Revision = highest + 1
	}
}

// expired are the outdated sets beyond the history limit, the oldest revision first.
func (p *plan) expired() []scale.Victim {
	limit, limited := p.HistoryLimit.Get()
	var empty []*set
	for _, s := range p.outdated() {
		if s.size == 0 {
			empty = append(empty, s)
		}
	}
	if !limited || len(empty) <= max(limit, 0) {
		return nil
	}
	slices.SortStableFunc(empty, func(a, b *set) int { return cmp.Compare(a.Revision, b.Revision) })
	var victims []scale.Victim
	for _, s := range empty[:len(empty)-max(limit, 0)] {
		victims = append(victims, scale.Victim{Name: s.Name, UID: s.UID})
	}
	return victims
}

// MadeForAnnotation of a set holds the value of Facts.After that was due when its deployment made it, in RFC 3339. The API server dates the
// set by another clock, by which that time may be still to come. Without the annotation, a set counts by its creation alone.
const MadeForAnnotation = "machinist.dev/made-for-rollout-after"

// MadeForAnnotations returns the annotations of a new set by the MadeFor of a Decision, empty for zero.
func MadeForAnnotations(after time.Time) map[string]string {
	if after.IsZero() {
		return nil
	}
	return map[string]string{MadeForAnnotation: after.UTC().Format(time.RFC3339)}
}

// ParseMadeFor returns what a set was made for by its annotations, zero without a readable time.
func ParseMadeFor(annotations map[string]string) time.Time {
	at, err := time.Parse(time.RFC3339, annotations[MadeForAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// madeSince reports whether a set was made for a rollout that starts at a time, or a later one, or was created then. All times count to
// the second.
func (s *Set) madeSince(after time.Time) bool {
	after = after.Truncate(time.Second)
	return !s.Created.Before(after) || !s.MadeFor.Before(after)
}
