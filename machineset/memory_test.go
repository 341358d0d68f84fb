package machineset

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestASetWaitsLongerWhileNothingAtAllIsMade(t *testing.T) {
	t.Parallel()
	var r recollection
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

func TestPartsOfEarlierAttemptsAreRemembered(t *testing.T) {
	t.Parallel()
	bootstrap, infra := schema.GroupVersionKind{Kind: "BootstrapConfig"}, schema.GroupVersionKind{Kind: "InfraMachine"}
	entry := scale.Entry{Slot: 3, Name: "workers-abcde"}
	var r recollection
	r.remember(creation{entry: entry, err: errors.New("its answer got lost"), parts: []schema.GroupVersionKind{bootstrap, infra}})
	r.remember(creation{entry: entry, err: errors.New("an error"), parts: []schema.GroupVersionKind{bootstrap}})
	require.Equal(t, map[int64]leftParts{3: {entry.Name, []schema.GroupVersionKind{bootstrap, infra}}}, r.left)
	r.remember(creation{entry: entry, resourceVersion: "1", parts: []schema.GroupVersionKind{bootstrap, infra}})
	require.Empty(t, r.left, "a Machine stands for them")
}

func TestACacheThatMissesAMachineIsTrustedNoMore(t *testing.T) {
	t.Parallel()
	alive := func(uid types.UID) *member {
		return &member{state: &contract.MachineState{Metadata: contract.Metadata{UID: uid}}}
	}
	going := alive("a")
	going.state.Deleting = time.Unix(1, 0)
	for name, tc := range map[string]struct {
		then func(*recollection)
		next []*member
		want bool
	}{
		"all are there":  {next: []*member{alive("a"), alive("b")}, want: true},
		"one is missing": {next: []*member{alive("b")}},
		"one was made and is missing": {then: func(r *recollection) { r.remember(creation{uid: "c"}) },
			next: []*member{alive("a"), alive("b")}},
		"one was made": {then: func(r *recollection) { r.remember(creation{uid: "c"}) },
			next: []*member{alive("a"), alive("b"), alive("c")}, want: true},
		"one went whose deletion was": {then: func(r *recollection) { r.keep([]*member{going, alive("b")}) }, next: []*member{alive("b")},
			want: true},
		"one went that was to go":       {then: func(r *recollection) { r.asked["a"] = true }, next: []*member{alive("b")}, want: true},
		"one is missing that was to go": {then: func(r *recollection) { r.asked["a"] = true }, next: []*member{alive("a")}},
	} {
		r := newRecollection()
		r.keep([]*member{alive("a"), alive("b")})
		require.False(t, r.trusted, name)
		r.shows("7")
		if tc.then != nil {
			tc.then(r)
		}
		r.keep(tc.next)
		require.Equal(t, tc.want, r.trusted, name)
	}
}

func TestNoMoreMachinesAreRememberedThanThereAre(t *testing.T) {
	t.Parallel()
	r := newRecollection()
	for _, uid := range []types.UID{"alive", "going", "gone"} {
		r.asked[uid], r.members[uid] = true, &known{}
	}
	r.keep([]*member{
		{state: &contract.MachineState{Metadata: contract.Metadata{UID: "alive"}}},
		{state: &contract.MachineState{Metadata: contract.Metadata{UID: "going", Deleting: time.Unix(1, 0)}}},
	})
	require.Equal(t, map[types.UID]bool{"alive": true}, r.asked, "the cache has yet to show this deletion alone")
	require.Len(t, r.members, 2)
	require.NotContains(t, r.members, types.UID("gone"))
	require.Equal(t, map[types.UID]bool{"alive": true}, r.shown)
}
