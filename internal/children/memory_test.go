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
	shows, message, _ = judge(time.Hour+lagLimit, "d")
	require.False(t, shows)
	require.Empty(t, message, "what was missing is shown, as while a set creates many")
}

func TestNoMoreMachinesAreRememberedThanThereAre(t *testing.T) {
	t.Parallel()
	r := NewMemory()
	for _, uid := range []types.UID{"alive", "gone"} {
		r.synced[uid] = inStep{}
	}
	s := &Scope[contract.MachineSetState, contract.MachineSetUpdate, contract.MachineState, contract.MachineUpdate]{memory: r}
	s.Own = []Child[contract.MachineState]{{Metadata: &contract.Metadata{UID: "alive"}}}
	require.NoError(t, s.Sync("", nil))
	require.Equal(t, map[types.UID]inStep{"alive": {}}, r.synced)
}
