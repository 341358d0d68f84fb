package machinepool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAMachineThatWasMadeIsMissedAfterAWhile(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	made := map[string]time.Time{"just": now, "before": now.Add(-20 * time.Second), "long ago": now.Add(-madeGrace), "shown": now}
	names, waiting, again := decideMade([]string{"before", "just", "long ago", "never"}, made, now)
	require.Equal(t, []string{"long ago", "never"}, names)
	require.Equal(t, map[string]time.Time{"just": now, "before": now.Add(-20 * time.Second)}, waiting, "what the cache shows is forgotten")
	require.Equal(t, 10*time.Second, again)
	require.Len(t, made, 4)
	names, waiting, again = decideMade(nil, made, now)
	require.Empty(t, names)
	require.Empty(t, waiting)
	require.Zero(t, again)
}
