package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAStatusIsWrittenWhenItHasSettled(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type want struct {
		Now     bool
		Again   time.Duration
		Pending settling
	}
	for name, tc := range map[string]struct {
		reason string
		facts  settleFacts
		want   want
	}{
		"nothing changed": {
			reason: "what is stored is not written again, and what was pending is forgotten",
			facts:  settleFacts{Now: at(0), Delay: time.Second, Pending: settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
		},
		"first difference": {
			reason: "the next stage may follow at once",
			facts:  settleFacts{Dirty: true, Now: at(0), Delay: time.Second, Fingerprint: 1},
			want:   want{Again: time.Second, Pending: settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
		},
		"unchanged for the delay": {
			facts: settleFacts{Dirty: true, Now: at(1000), Delay: time.Second, Fingerprint: 1,
				Pending: settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Now: true},
		},
		"changed again": {
			reason: "the delay starts over, because another stage was reached",
			facts: settleFacts{Dirty: true, Now: at(900), Delay: time.Second, Fingerprint: 2,
				Pending: settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Again: time.Second, Pending: settling{Fingerprint: 2, Since: at(0), Last: at(900)}},
		},
		"keeps changing": {
			reason: "a status that never rests is written all the same",
			facts: settleFacts{Dirty: true, Now: at(5000), Delay: time.Second, Fingerprint: 9,
				Pending: settling{Fingerprint: 8, Since: at(0), Last: at(4900)}},
			want: want{Now: true},
		},
		"a Node that has joined is about to become Ready": {
			reason: "joining and becoming Ready are one write",
			facts: settleFacts{Dirty: true, Expecting: true, Now: at(1500), Delay: time.Second, Fingerprint: 1,
				Pending: settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Again: 3500 * time.Millisecond, Pending: settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
		},
		"a Node that does not become Ready is shown all the same": {
			facts: settleFacts{Dirty: true, Expecting: true, Now: at(5000), Delay: time.Second, Fingerprint: 1,
				Pending: settling{Fingerprint: 1, Since: at(0), Last: at(0)}},
			want: want{Now: true},
		},
		"a step waits for it": {
			facts: settleFacts{Dirty: true, Urgent: true, Now: at(0), Delay: time.Second},
			want:  want{Now: true},
		},
		"nothing more to come": {
			facts: settleFacts{Dirty: true, Final: true, Now: at(0), Delay: time.Second},
			want:  want{Now: true},
		},
		"no delay": {
			facts: settleFacts{Dirty: true, Now: at(0), Delay: -1},
			want:  want{Now: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got want
			got.Now, got.Again, got.Pending = settle(tc.facts)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
