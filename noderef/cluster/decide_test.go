package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestDecideReturnsTheMostImportantActionThatIsDue(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	tests := map[string]struct {
		facts  facts
		want   action
		wakeIn time.Duration // for pause; negative is never
	}{
		"a new cluster is connected at once": {
			facts{Asked: now}, connect, 0},
		"a failed attempt is followed by a pause": {
			facts{Asked: now, RetryAt: now.Add(4 * time.Second)}, pause, 4 * time.Second},
		"and then by another attempt": {
			facts{Asked: now, RetryAt: now}, connect, 0},
		"a lost server is probed after the pause": {
			facts{Asked: now, Phase: lost, RetryAt: now}, rejoin, 0},
		"a lost server whose target has changed gets a new connection": {
			facts{Asked: now, Phase: lost, Changed: true}, replace, 0},
		"a server with signs of life is not probed": {
			facts{Asked: now, Phase: connected, Seen: ago(30 * time.Second)}, pause, time.Minute},
		"silence is examined": {
			facts{Asked: now, Phase: connected, Seen: ago(90 * time.Second)}, examine, 0},
		"trouble is examined at once": {
			facts{Asked: now, Phase: connected, Seen: now, Troubled: true, Probed: ago(time.Minute)}, examine, 0},
		"but not all the time": {
			facts{Asked: now, Phase: connected, Seen: now, Troubled: true, Probed: ago(500 * time.Millisecond)}, pause, 1500 * time.Millisecond},
		"a changed target comes before trouble": {
			facts{Asked: now, Phase: connected, Seen: now, Troubled: true, Changed: true}, replace, 0},
		"while a new target does not work, the old connection is looked after": {
			facts{Asked: now, Phase: connected, Changed: true, RetryAt: now.Add(time.Second), Seen: ago(2 * time.Minute)}, examine, 0},
		"a cache that is behind is checked": {
			facts{Asked: now, Phase: connected, Seen: now, CatchUp: now}, catchUp, 0},
		"every few seconds": {
			facts{Asked: now, Phase: connected, Seen: now, CatchUp: now.Add(2 * time.Second)}, pause, 2 * time.Second},
		"trouble comes before that": {
			facts{Asked: now, Phase: connected, Seen: now, CatchUp: now, Troubled: true}, examine, 0},
		"and a loss ends it": {
			facts{Asked: now, Phase: lost, CatchUp: now, RetryAt: now.Add(time.Second)}, pause, time.Second},
		"an unused connection ends": {
			facts{Asked: ago(10 * time.Minute), Phase: connected, Seen: now}, retire, 0},
		"in any state": {
			facts{Asked: ago(10 * time.Minute), Phase: lost, RetryAt: now.Add(time.Hour)}, retire, 0},
		"what is held stays": {
			facts{Asked: ago(time.Hour), Held: true, Phase: connected, Seen: ago(time.Minute)}, pause, 30 * time.Second},
		"a running Target is not probed": {
			facts{Asked: ago(time.Minute), Phase: connected, Foreign: true}, pause, 9 * time.Minute},
		"a running Target that is held needs no action": {
			facts{Asked: ago(time.Hour), Held: true, Phase: connected, Foreign: true}, pause, -1},
		"it is read again when no notifier reports changes": {
			facts{Asked: now, Phase: connected, Foreign: true, LookAt: now}, replace, 0},
		"and not earlier": {
			facts{Asked: now, Phase: connected, Foreign: true, LookAt: now.Add(time.Minute)}, pause, time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			got, wake := decide(tc.facts, 90*time.Second, 10*time.Minute)
			want := now.Add(tc.wakeIn)
			if tc.wakeIn < 0 {
				want = time.Time{}
			}
			if diff := cmp.Diff([]any{tc.want, want}, []any{got, wake}); diff != "" {
				t.Errorf("decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPausesGrowToTheirLimitAndAreSpread(t *testing.T) {
	chance := 0.0
	var initial wait.Backoff
	require.NoError(t, completeBackoff(&initial))
	b := newBackoff(initial, func() float64 { return chance })
	var got []time.Duration
	for range 8 {
		got = append(got, b.next())
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s}, got); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	chance = 0.5
	require.Equal(t, 37500*time.Millisecond, b.next(), "half of the half on top")
	b.reset()
	require.Equal(t, 1250*time.Millisecond, b.next())
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options[int]{Timeout: -1, ProbePath: "readyz", Backoff: wait.Backoff{Factor: 2}})
	for _, says := range []string{"Access is required", "Timeout", "slash", "Backoff"} {
		require.ErrorContains(t, err, says)
	}
}
