package simulation

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restless has always something to do, which takes a minute.
type restless struct{}

func (restless) can(_ context.Context, w *World) []func() {
	return []func(){func() { w.pass(time.Minute) }}
}

func (restless) next(*World) time.Time { return time.Time{} }

func TestAWaitInWhichSomethingIsAlwaysPossibleEnds(t *testing.T) {
	t.Parallel()
	w, err := newWorld(t.Context(), Seeded(0), Options{})
	require.NoError(t, err)
	t.Cleanup(w.stop)
	w.actors, w.calm = []actor{restless{}}, true
	began := w.Now()

	w.until(t.Context(), "", 5*time.Minute, func() string { return "time" })

	require.Nil(t, w.broken)
	require.Equal(t, 5*time.Minute+mostOverdue, w.Now().Sub(began))
}
