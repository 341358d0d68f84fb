package simulation

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restless has always something to do while there are faults.
func restless(_ context.Context, w *World) []due {
	for range 100 { // one of them is drawn
		if w.drawn([]Fault{Late}, 2) != "" {
			return []due{{do: func() { w.note("restless", "acts", "") }}}
		}
	}
	return nil
}

func TestAWaitEndsInWhichFaultsAlwaysMakeSomethingPossible(t *testing.T) {
	t.Parallel()
	w, err := newWorld(t.Context(), Seeded(0), Options{Steps: 1})
	require.NoError(t, err)
	t.Cleanup(w.stop)
	w.leads, w.actors, w.drawnTo = []bool{false, false}, []actor{restless}, map[Fault]bool{Late: true}

	w.until(t.Context(), "", 5*time.Minute, func() string { return "time" })

	require.Nil(t, w.broken)
	require.True(t, w.exhausted())
}
