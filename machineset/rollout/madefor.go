package rollout

import (
	"slices"
	"time"
)

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

// MadeSince reports whether a set was made for a rollout that starts at a time, or a later one, or was created then. All times count to
// the second.
func (s *Set) MadeSince(after time.Time) bool {
	after = after.Truncate(time.Second)
	return !s.Created.Before(after) || !s.MadeFor.Before(after)
}

// due says whether the rollout at the time of After has begun: that time has come, or a set was made for it already. Otherwise a process
// whose clock is behind that of an earlier leader would take the rollout back.
func (f *Facts) due() bool {
	if f.After.IsZero() {
		return false
	}
	after := f.After.Truncate(time.Second)
	return !f.Now.Before(f.After) || slices.ContainsFunc(f.Sets, func(s Set) bool { return !s.MadeFor.Before(after) })
}
