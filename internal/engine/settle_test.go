package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/machinist-dev/machinist/internal/engine"
)

func TestAStatusIsWrittenWhenItHasSettled(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type want struct {
		Now     bool
		Again   time.Duration
		Pending engine.Settling
	}
	for name, tc := range map[string]struct {
		reason string
		facts  engine.SettleFacts
		want   want
	}{
		"nothing changed": {
			reason: "what is stored is not written again, and what was pending is forgotten",
			facts:  engine.SettleFacts{Now: at(0), Delay: time.Second, Pending: engine.Settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
		},
		"first difference": {
			reason: "the next stage may follow at once",
			facts:  engine.SettleFacts{Dirty: true, Now: at(0), Delay: time.Second, Fingerprint: 1},
			want:   want{Again: time.Second, Pending: engine.Settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
		},
		"unchanged for the delay": {
			facts: engine.SettleFacts{Dirty: true, Now: at(1000), Delay: time.Second, Fingerprint: 1,
				Pending: engine.Settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Now: true},
		},
		"changed again": {
			reason: "the delay starts over, because another stage was reached",
			facts: engine.SettleFacts{Dirty: true, Now: at(900), Delay: time.Second, Fingerprint: 2,
				Pending: engine.Settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Again: time.Second, Pending: engine.Settling{Fingerprint: 2, Since: at(0), Last: at(900)}},
		},
		"keeps changing": {
			reason: "a status that never rests is written all the same",
			facts: engine.SettleFacts{Dirty: true, Now: at(5000), Delay: time.Second, Fingerprint: 9,
				Pending: engine.Settling{Fingerprint: 8, Since: at(0), Last: at(4900)}},
			want: want{Now: true},
		},
		"a Node that has joined is about to become Ready": {
			reason: "joining and becoming Ready are one write",
			facts: engine.SettleFacts{Dirty: true, Expecting: true, Now: at(1500), Delay: time.Second, Fingerprint: 1,
				Pending: engine.Settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Again: 3500 * time.Millisecond, Pending: engine.Settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
		},
		"a Node that does not become Ready is shown all the same": {
			facts: engine.SettleFacts{Dirty: true, Expecting: true, Now: at(5000), Delay: time.Second, Fingerprint: 1,
				Pending: engine.Settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Now: true},
		},
		"a step waits for it": {
			facts: engine.SettleFacts{Dirty: true, Urgent: true, Now: at(0), Delay: time.Second},
			want:  want{Now: true},
		},
		"nothing more to come": {
			facts: engine.SettleFacts{Dirty: true, Final: true, Now: at(0), Delay: time.Second},
			want:  want{Now: true},
		},
		"a count after a quiet time": {
			reason: "it shows at once",
			facts: engine.SettleFacts{Dirty: true, Counts: true, Now: at(1000), Delay: time.Second, Fingerprint: 1,
				Pending: engine.Settling{Written: at(0)}},
			want: want{Now: true, Pending: engine.Settling{Written: at(0)}},
		},
		"a count a moment after another one": {
			reason: "what changes meanwhile is the same write",
			facts: engine.SettleFacts{Dirty: true, Counts: true, Now: at(900), Delay: time.Second, Fingerprint: 2,
				Pending: engine.Settling{Written: at(200), Fingerprint: 1, Since: at(300), Last: at(300)}},
			want: want{Again: 300 * time.Millisecond,
				Pending: engine.Settling{Written: at(200), Fingerprint: 2, Since: at(300), Last: at(900)}},
		},
		"a count that must not be hidden": {
			facts: engine.SettleFacts{Dirty: true, Urgent: true, Counts: true, Now: at(900), Delay: time.Second,
				Pending: engine.Settling{Written: at(200)}},
			want: want{Now: true, Pending: engine.Settling{Written: at(200)}},
		},
		"no delay": {
			facts: engine.SettleFacts{Dirty: true, Now: at(0), Delay: -1},
			want:  want{Now: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got want
			got.Now, got.Again, got.Pending = engine.Settle(tc.facts)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAStatusWaitsLongerWhileMoreOfThemWaitThanCanBeWritten(t *testing.T) {
	for name, tc := range map[string]struct{ delay, backlog, want time.Duration }{
		"an idle server":    {time.Second, time.Millisecond, time.Second},
		"a busy one":        {time.Second, 10 * time.Second, 20 * time.Second},
		"a very busy one":   {time.Second, time.Hour, time.Minute},
		"a delay beyond it": {time.Hour, time.Hour, time.Hour},
		"without any delay": {-1, time.Hour, -1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := engine.Patience(tc.delay, tc.backlog); got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}
