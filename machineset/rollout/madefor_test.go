package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// The clock of the API server, by which sets are as old as they are, is ten seconds behind that of the one who plans.
func TestOneSetIsMadeForATimeWhicheverClockSaysThatItHasCome(t *testing.T) {
	t.Parallel()
	after := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	old := rollout.Set{Name: "old", UID: "old", Created: after.Add(-time.Hour), Revision: 1, Matches: true}
	behind := rollout.Set{Name: "new", UID: "new", Created: after.Add(-10 * time.Second), Revision: 2, Matches: true}
	made := func(at time.Time, change ...func(*rollout.Set)) rollout.Set {
		s := behind
		s.MadeFor = at
		for _, one := range change {
			one(&s)
		}
		return s
	}
	other := func(s *rollout.Set) { s.Matches = false }
	going := func(s *rollout.Set) { s.Deleting = true }
	full := func(s *rollout.Set) { s.Replicas = 1 }
	older := func(s *rollout.Set) { s.Name, s.UID, s.Created = old.Name, old.UID, old.Created }
	for name, tc := range map[string]struct {
		after, now time.Time
		sets       []rollout.Set
		want       string    // the current set, empty where one is to be created
		madeFor    time.Time // of that one
	}{
		"never, after another restart is over": {now: after, sets: []rollout.Set{old, made(after, full)}, want: "new"},
		"not yet, after another restart is over": {
			after: after.Add(time.Hour), now: after, sets: []rollout.Set{old, made(after, full)}, want: "new"},
		"never, and both have replicas": {now: after, sets: []rollout.Set{made(time.Time{}, full, older), made(after, full)}, want: "old"},
		"never":                         {now: after, sets: []rollout.Set{old}, want: "old"},
		"not yet":                       {after: after, now: after.Add(-time.Second), sets: []rollout.Set{old}, want: "old"},
		"not yet, without a set":        {after: after, now: after.Add(-time.Second)},
		"now":                           {after: after, now: after, sets: []rollout.Set{old}, madeFor: after},
		"long ago, without a set":       {after: after, now: after.Add(time.Hour), madeFor: after},
		"the set was made for it":       {after: after, now: after, sets: []rollout.Set{old, made(after)}, want: "new"},
		"in a fraction of a second": {
			after: after.Add(time.Millisecond), now: after.Add(time.Second), sets: []rollout.Set{old, made(after)}, want: "new"},
		"for a later time":          {after: after, now: after, sets: []rollout.Set{old, made(after.Add(time.Minute))}, want: "new"},
		"for an earlier time":       {after: after, now: after, sets: []rollout.Set{old, made(after.Add(-time.Second))}, madeFor: after},
		"a person has removed that": {after: after, now: after, sets: []rollout.Set{old, behind}, madeFor: after},
		"it was created in that second": {after: after.Add(time.Millisecond), now: after.Add(time.Second),
			sets: []rollout.Set{old, {Name: "new", UID: "new", Created: after, Matches: true}}, want: "new"},
		"by a leader whose clock is ahead": {after: after, now: after.Add(-time.Minute), sets: []rollout.Set{old, made(after)}, want: "new"},
		"it was made and the template has changed": {
			after: after, now: after.Add(-time.Minute), sets: []rollout.Set{made(after, other)}, madeFor: after},
		"it was made and is going": {after: after, now: after.Add(-time.Minute), sets: []rollout.Set{old, made(after, going)}, madeFor: after},
	} {
		t.Run(name, func(t *testing.T) {
			f := rollout.Facts{Desired: contract.Some(1), Sets: tc.sets, After: tc.after, Now: tc.now}
			d := rollout.Plan(f)
			require.Equal(t, tc.want, d.Current.Name)
			require.Equal(t, tc.want == "", d.Create.Found())
			require.Equal(t, tc.madeFor, d.MadeFor)
			f.Desired = contract.Opt[int]{}
			require.Equal(t, tc.want, rollout.Plan(f).Current.Name)
		})
	}
}
