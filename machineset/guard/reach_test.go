package guard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const tolerance = 30 * time.Second

func TestAServerThatDoesNotAnswerForTheToleranceFreezes(t *testing.T) {
	t.Parallel()
	var r reach
	require.Equal(t, time.Second, r.next(time.Minute, tolerance), "it has not answered yet")
	require.Equal(t, 6*time.Second, r.observe(false, noon, 0).next(time.Minute, tolerance), "it has not for long")
	r = r.observe(true, noon, tolerance)
	require.Equal(t, reach{answered: true, thawedAt: noon}, r)
	require.Equal(t, time.Minute, r.next(time.Minute, tolerance))
	r = r.observe(false, noon.Add(time.Minute), tolerance)
	require.False(t, r.frozen)
	require.Equal(t, 6*time.Second, r.next(time.Minute, tolerance))
	r = r.observe(false, noon.Add(time.Minute+29*time.Second), tolerance)
	require.False(t, r.frozen)
	short := r.observe(true, noon.Add(time.Minute+29*time.Second), tolerance)
	require.Equal(t, noon, short.thawedAt, "a short outage starts no timer anew")
	r = r.observe(false, noon.Add(time.Minute+30*time.Second), tolerance)
	require.True(t, r.frozen)
	require.Equal(t, r, r.observe(false, noon.Add(time.Hour), tolerance))
	r = r.observe(true, noon.Add(2*time.Hour), tolerance)
	require.Equal(t, reach{answered: true, thawedAt: noon.Add(2 * time.Hour)}, r)
	require.Equal(t, r.thawedAt, later(noon, r.thawedAt), "what failed before counts anew")
	after := noon.Add(3 * time.Hour)
	require.Equal(t, after, later(after, r.thawedAt), "what fails afterwards counts from then on")
}

func TestAProcessThatStartsDuringAnOutageStartsTheTimersAnew(t *testing.T) {
	t.Parallel()
	r := reach{}.observe(false, noon, tolerance).observe(false, noon.Add(time.Minute), tolerance)
	require.True(t, r.frozen)
	require.Equal(t, noon.Add(time.Hour), later(noon, r.observe(true, noon.Add(time.Hour), tolerance).thawedAt))
}

func TestAClockThatIsSetBackBeginsAnew(t *testing.T) {
	t.Parallel()
	r := reach{}.observe(true, noon, tolerance).observe(false, noon.Add(time.Hour), tolerance).observe(false, noon, tolerance)
	require.False(t, r.frozen)
	require.True(t, r.observe(false, noon.Add(tolerance), tolerance).frozen)
}

func TestWhatDependsOnTwoServersIsFrozenWithOneOfThem(t *testing.T) {
	t.Parallel()
	up := reach{answered: true, thawedAt: noon}
	down := reach{answered: true, downSince: noon.Add(time.Minute), frozen: true, thawedAt: noon.Add(-time.Hour)}
	for _, both := range []reach{both(up, down), both(down, up)} {
		require.True(t, both.frozen)
		require.Equal(t, noon, both.thawedAt, "the later one")
	}
	require.False(t, both(up, up).frozen)
	require.False(t, both(up, reach{}).answered)
}
