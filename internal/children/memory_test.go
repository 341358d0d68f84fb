package children

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestASetWaitsLongerWhileNothingAtAllIsMade(t *testing.T) {
	t.Parallel()
	var r Memory[contract.MachineState]
	now := time.Now()
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		r.tried(false, true, 1, now)
		require.Equal(t, want, r.waits(1, now), "after %d attempts", i+1)
	}
	for range 10 {
		r.tried(false, true, 1, now)
	}
	require.Equal(t, maxPatience, r.waits(1, now))
	for range 10 {
		r.tried(true, true, 1, now)
		require.Equal(t, time.Second, r.waits(1, now), "some of each batch are made")
	}
	for range 10 {
		r.tried(false, true, 1, now)
	}
	r.tried(false, true, 2, now)
	require.Equal(t, time.Second, r.waits(2, now), "it is another attempt since the set was changed")
	r.tried(false, false, 2, now)
	require.Zero(t, r.waits(2, now), "nothing has failed")
}

func TestACacheThatMissesAMachineIsTrustedNoMore(t *testing.T) {
	t.Parallel()
	type memory = Memory[contract.MachineState]
	type member = Child[contract.MachineState]
	alive := func(uid types.UID) member { return member{Metadata: &contract.Metadata{UID: uid}} }
	going := alive("a")
	going.Deleting = time.Unix(1, 0)
	requested := func(r *memory) { r.requested.Add("a", "1", time.Time{}) }
	for name, tc := range map[string]struct {
		then func(*memory)
		next []member
		// counts: those in deletion count.
		counts, want bool
	}{
		"all are there":  {next: []member{alive("a"), alive("b")}, want: true},
		"one is missing": {next: []member{alive("b")}},
		"one was made and is missing": {then: func(r *memory) { r.created(Creation{uid: "c"}) },
			next: []member{alive("a"), alive("b")}},
		"one was made": {then: func(r *memory) { r.created(Creation{uid: "c"}) },
			next: []member{alive("a"), alive("b"), alive("c")}, want: true},
		"one went whose deletion was": {then: func(r *memory) { r.keep([]member{going, alive("b")}, false) }, next: []member{alive("b")},
			want: true},
		"one went that counted in its deletion": {then: func(r *memory) { r.keep([]member{going, alive("b")}, true) },
			next: []member{alive("b")}, counts: true},
		"one is in deletion and counts": {next: []member{going, alive("b")}, counts: true, want: true},
		"one went that was to go":       {then: requested, next: []member{alive("b")}, want: true},
		"one is missing that was to go": {then: requested, next: []member{alive("a")}},
	} {
		r := NewMemory[contract.MachineState]()
		r.keep([]member{alive("a"), alive("b")}, tc.counts)
		require.False(t, r.trusted, name)
		r.shows("7", "{}")
		if tc.then != nil {
			tc.then(r)
		}
		r.keep(tc.next, tc.counts)
		require.Equal(t, tc.want, r.trusted, name)
	}
}

func TestNoMoreMachinesAreRememberedThanThereAre(t *testing.T) {
	t.Parallel()
	r := NewMemory[contract.MachineState]()
	for _, uid := range []types.UID{"alive", "going", "gone"} {
		r.requested.Add(uid, "7", time.Time{})
		r.read[uid] = &known[contract.MachineState]{}
	}
	r.keep([]Child[contract.MachineState]{
		{Metadata: &contract.Metadata{UID: "alive"}}, {Metadata: &contract.Metadata{UID: "going", Deleting: time.Unix(1, 0)}},
	}, false)
	require.Equal(t, engine.Deletions{"alive": {ResourceVersion: "7"}}, r.requested, "the cache has yet to show this deletion alone")
	require.Len(t, r.read, 2)
	require.NotContains(t, r.read, types.UID("gone"))
	require.Equal(t, map[types.UID]bool{"alive": true}, r.shown)
}

// A backup takes a deletion back, and so does what has changed a child just before the request arrived.
func TestADeletionIsRepeatedForAChildThatLivesOn(t *testing.T) {
	t.Parallel()
	for version, asked := range map[string]bool{"6": true, "7": true, "8": false} {
		r := NewMemory[contract.MachineState]()
		r.requested.Add("a", "7", time.Time{})
		r.keep([]Child[contract.MachineState]{{Metadata: &contract.Metadata{UID: "a", ResourceVersion: version}}}, false)
		require.Equal(t, asked, r.requested.Has("a"), version)
	}
}
