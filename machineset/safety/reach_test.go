package safety_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machineset/safety"
)

const tolerance = 30 * time.Second

func TestAServerThatDoesNotAnswerForTheToleranceFreezes(t *testing.T) {
	t.Parallel()
	var r safety.Reach
	require.Equal(t, time.Second, r.Next(time.Minute, tolerance), "it has not answered yet")
	require.Equal(t, 6*time.Second, r.Observe(false, noon, 0).Next(time.Minute, tolerance), "it has not for long")
	r = r.Observe(true, noon, tolerance)
	require.Equal(t, safety.Reach{Answered: true, ThawedAt: noon}, r)
	require.Equal(t, time.Minute, r.Next(time.Minute, tolerance))
	r = r.Observe(false, noon.Add(time.Minute), tolerance)
	require.False(t, r.IsFrozen())
	require.Equal(t, 6*time.Second, r.Next(time.Minute, tolerance))
	r = r.Observe(false, noon.Add(time.Minute+29*time.Second), tolerance)
	require.False(t, r.IsFrozen())
	short := r.Observe(true, noon.Add(time.Minute+29*time.Second), tolerance)
	require.Equal(t, noon, short.ThawedAt, "a short outage starts no timer anew")
	r = r.Observe(false, noon.Add(time.Minute+30*time.Second), tolerance)
	require.True(t, r.IsFrozen())
	require.Equal(t, noon.Add(time.Minute+30*time.Second), r.FrozenSince)
	require.Equal(t, r, r.Observe(false, noon.Add(time.Hour), tolerance))
	r = r.Observe(true, noon.Add(2*time.Hour), tolerance)
	require.Equal(t, safety.Reach{Answered: true, ThawedAt: noon.Add(2 * time.Hour)}, r)
}

// An outage that is longer than the health timeout: Gardener makes every Unknown Machine Running at its end.
func TestAnOutageLongerThanTheHealthTimeoutStartsTheTimersAnew(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Minute
	unknownSince := noon.Add(time.Minute)
	r := safety.Reach{}.Observe(true, noon, tolerance)
	r = r.Observe(false, unknownSince, tolerance).Observe(false, noon.Add(2*time.Minute), tolerance)
	require.True(t, r.IsFrozen())
	back := noon.Add(time.Hour)
	r = r.Observe(true, back, tolerance)
	require.Equal(t, back, r.Timer(unknownSince))
	require.True(t, back.Before(r.Timer(unknownSince).Add(timeout)), "not one of them is due when the server is back")
	later := back.Add(time.Minute)
	require.Equal(t, later, r.Timer(later), "what fails afterwards counts from then on")
}

func TestAProcessThatStartsDuringAnOutageStartsTheTimersAnewToo(t *testing.T) {
	t.Parallel()
	r := safety.Reach{}.Observe(false, noon, tolerance).Observe(false, noon.Add(time.Minute), tolerance)
	require.True(t, r.IsFrozen())
	require.Equal(t, noon.Add(time.Hour), r.Observe(true, noon.Add(time.Hour), tolerance).Timer(noon))
}

func TestAClockThatIsSetBackBeginsAnew(t *testing.T) {
	t.Parallel()
	r := safety.Reach{}.Observe(true, noon, tolerance).Observe(false, noon.Add(time.Hour), tolerance).Observe(false, noon, tolerance)
	require.False(t, r.IsFrozen())
	require.True(t, r.Observe(false, noon.Add(tolerance), tolerance).IsFrozen())
}

func TestWhatDependsOnTwoServersIsFrozenWithOneOfThem(t *testing.T) {
	t.Parallel()
	up := safety.Reach{Answered: true, ThawedAt: noon}
	down := safety.Reach{Answered: true, DownSince: noon.Add(time.Minute), FrozenSince: noon.Add(2 * time.Minute),
		ThawedAt: noon.Add(-time.Hour)}
	for _, both := range []safety.Reach{safety.Both(up, down), safety.Both(down, up)} {
		require.True(t, both.IsFrozen())
		require.Equal(t, noon, both.ThawedAt, "the later one")
	}
	require.False(t, safety.Both(up, up).IsFrozen())
	require.False(t, safety.Both(up, safety.Reach{}).Answered)
}
