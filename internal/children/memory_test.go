package children

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func TestLag(t *testing.T) {
	t.Parallel()
	var lag Lag
	now := time.Now()
	judge := func(after time.Duration, missing ...string) (bool, string, time.Duration) {
		return lag.Judge("Machine", missing, now.Add(after))
	}
	shows, message, again := judge(0)
	require.True(t, shows)
	require.Empty(t, message)
	require.Zero(t, again)
	for _, after := range []time.Duration{0, lagLimit - 1} {
		shows, message, again = judge(after, "b", "a")
		require.False(t, shows)
		require.Empty(t, message, "it may be late")
		require.Equal(t, engine.BehindRetry, again)
	}
	shows, message, again = judge(lagLimit, "b", "a")
	require.False(t, shows)
	require.Contains(t, message, "Machine a exists, and the cache does not show it")
	require.Equal(t, askAgain, again)
	_, message, _ = judge(-time.Hour, "a")
	require.Empty(t, message, "the clock was put back")
	judge(0)
	_, message, _ = judge(time.Hour, "c")
	require.Empty(t, message, "another one is missing since now")
}

func TestNoMoreMachinesAreRememberedThanThereAre(t *testing.T) {
	t.Parallel()
	r := NewMemory()
	for _, uid := range []types.UID{"alive", "going", "gone"} {
		r.requested.Add(uid, "7", time.Time{})
		r.synced[uid] = inStep{}
	}
	keep(r, []Child[contract.MachineState]{
		{Metadata: &contract.Metadata{UID: "alive"}}, {Metadata: &contract.Metadata{UID: "going", Deleting: time.Unix(1, 0)}},
	})
	require.Equal(t, engine.Deletions{"alive": {ResourceVersion: "7"}}, r.requested, "the cache has yet to show this deletion alone")
	require.Len(t, r.synced, 2)
	require.NotContains(t, r.synced, types.UID("gone"))
}

// A backup takes a deletion back, and so does what has changed a child just before the request arrived.
func TestADeletionIsRepeatedForAChildThatLivesOn(t *testing.T) {
	t.Parallel()
	for version, asked := range map[string]bool{"6": true, "7": true, "8": false} {
		r := NewMemory()
		r.requested.Add("a", "7", time.Time{})
		keep(r, []Child[contract.MachineState]{{Metadata: &contract.Metadata{UID: "a", ResourceVersion: version}}})
		require.Equal(t, asked, r.requested.Has("a"), version)
	}
}
