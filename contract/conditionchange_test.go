package contract_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

func TestSteadyText_LeavesOutWhatDiffersBetweenAttempts(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"no such object":   "no such object",
		"a->b? really 1:2": "a->b? really 1:2",
		"read tcp 10.0.0.1:41234->10.0.0.2:6443: connection reset by peer": "read tcp 10.0.0.2:6443: connection reset by peer",
		"read tcp [fd00::1]:41234->[fd00::2]:6443: i/o timeout":            "read tcp [fd00::2]:6443: i/o timeout",
		"lookup web on 10.96.0.10:53: read udp 10.1.1.1:45678->10.96.0.10:53: i/o timeout; and again": "lookup web on 10.96.0.10:53: " +
			"read udp 10.96.0.10:53: i/o timeout; and again",
		`Get "https://api:6443/api/v1/pods?timeoutSeconds=437&watch=true": dial tcp 10.0.0.2:6443: connect: connection refused`: `Get ` +
			`"https://api:6443/api/v1/pods": dial tcp 10.0.0.2:6443: connect: connection refused`,
		`Get "https://api?cut in two`: `Get "https://api?cut in two`,
	} {
		if got := contract.SteadyText(text); got != want {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

func TestChangedConditions_AnotherLocalPortIsNoChange(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	with := func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Down", Message: message}}
	}
	have := with("read tcp 10.0.0.1:41234->10.0.0.2:6443: connection reset by peer")
	if got := contract.ChangedConditions(have, with("read tcp 10.0.0.1:5678->10.0.0.2:6443: connection reset by peer"), 0,
		now); len(got) != 0 {
		t.Errorf("want no write, got %v", got)
	}
	if got := contract.ChangedConditions(have, with("read tcp 10.0.0.1:5678->10.0.0.3:6443: connection reset by peer"), 0,
		now); len(got) != 1 {
		t.Errorf("want another server to be told, got %v", got)
	}
}

// A process whose clock was hours ahead has written when a condition began: what counts from it would take hours.
func TestChangedConditions_ATimeThatIsYetToComeBeginsAnew(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	with := func(at time.Time) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Up", LastTransitionTime: metav1.NewTime(at)}}
	}
	for _, c := range []struct {
		have, brought, want time.Time // a zero time: nothing is written
	}{
		{have: now.Add(5 * time.Hour), want: now},
		{have: now.Add(5 * time.Hour), brought: now.Add(-time.Hour), want: now.Add(-time.Hour)},
		{have: now.Add(5 * time.Minute)},
		{have: now.Add(-time.Hour)},
		{have: now.Add(5 * time.Hour), brought: now.Add(5 * time.Hour)}, // what it mirrors has the wrong clock, and would bring it again
	} {
		changed := contract.ChangedConditions(with(c.have), with(c.brought), 0, now)
		switch {
		case c.want.IsZero() && len(changed) != 0:
			t.Errorf("%+v: want no write, got %v", c, changed)
		case !c.want.IsZero() && (len(changed) != 1 || !changed[0].LastTransitionTime.Time.Equal(c.want)):
			t.Errorf("%+v: got %v", c, changed)
		}
	}
}
