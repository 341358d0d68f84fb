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
		wakeIn time.Duration // for pause
	}{
		"a new cluster is connected at once": {
			facts{Asked: now}, connect, 0},
		"a failed attempt is followed by a pause": {
			facts{Asked: now, RetryAt: now.Add(4 * time.Second)}, pause, 4 * time.Second},
		"and then by another attempt": {
			facts{Asked: now, RetryAt: now}, connect, 0},
		"a server with signs of life is not probed": {
			facts{Asked: now, Connected: true, Seen: ago(30 * time.Second)}, pause, time.Minute},
		"silence is examined": {
			facts{Asked: now, Connected: true, Seen: ago(90 * time.Second)}, examine, 0},
		"trouble is examined at once": {
			facts{Asked: now, Connected: true, Seen: now, Troubled: true, Probed: ago(time.Minute)}, examine, 0},
		"but not all the time": {
			facts{Asked: now, Connected: true, Seen: now, Troubled: true, Probed: ago(500 * time.Millisecond)}, pause, 1500 * time.Millisecond},
		"a changed target comes before trouble": {
			facts{Asked: now, Connected: true, Seen: now, Troubled: true, Changed: true}, connect, 0},
		"while a new target does not work, the old connection is looked after": {
			facts{Asked: now, Connected: true, Changed: true, RetryAt: now.Add(time.Second), Seen: ago(2 * time.Minute)}, examine, 0},
		"an unused connection ends": {
			facts{Asked: ago(10 * time.Minute), Connected: true, Seen: now}, retire, 0},
		"so do attempts to connect": {
			facts{Asked: ago(10 * time.Minute), RetryAt: now.Add(time.Hour)}, retire, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			got, wake := decide(tc.facts, 90*time.Second, 10*time.Minute)
			want := now.Add(tc.wakeIn)
			if diff := cmp.Diff([]any{tc.want, want}, []any{got, wake}); diff != "" {
				t.Errorf("decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options[int]{Timeout: -1, ProbePath: "readyz", Backoff: wait.Backoff{Factor: 2}})
	for _, says := range []string{"Access is required", "Timeout", "slash", "Backoff"} {
		require.ErrorContains(t, err, says)
	}
}
