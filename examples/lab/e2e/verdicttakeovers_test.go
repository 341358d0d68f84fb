package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// led is a log of a Lease and of other requests.
type led struct{ events cluster.AuditEvents }

func (l *led) add(n int, user, verb, resource string, code int) {
	name := "m1"
	if resource == "leases" {
		name = "managers"
	}
	l.events = append(l.events, cluster.AuditEvent{Received: second(n), User: user, Verb: verb, Resource: resource, Name: name, Code: code})
}

func (l *led) leads(user string, from, to int) {
	for n := from; n <= to; n += 2 {
		l.add(n, user, "update", "leases", 200)
	}
}

func TestALogWithOneLeaderHasNoTakeover(t *testing.T) {
	var l led
	l.leads("a", 0, 20)
	l.add(9, "b", "update", "leases", 409)
	require.Empty(t, Takeovers("managers", l.events))
	require.Empty(t, Takeovers("another", l.events))
}

func TestATakeoverSaysForHowLongThereWasNoLeader(t *testing.T) {
	var l led
	l.leads("a", 0, 6)
	l.add(7, "a", "patch", "machines", 200)
	l.leads("b", 22, 22)
	l.add(23, "b", "list", "machines", 200)
	l.add(24, "b", "patch", "machines", 409)
	l.add(25, "b", "patch", "machines", 200)
	l.add(40, "b", "patch", "machines", 200)
	got := Takeovers("managers", l.events)
	require.Equal(t, []Takeover{{
		From: "a", To: "b", At: second(22), Vacant: 16 * time.Second, Idle: 18 * time.Second, Requests: 3,
	}}, got)
	require.Equal(t, "b after a: no leader for 16s, no write for 18s, 0 late writes accepted and 0 refused, 3 requests in its first 10s",
		got[0].String())
}

func TestAProcessThatGoesOnAfterItsLeaseMakesLateWrites(t *testing.T) {
	var l led
	l.leads("a", 0, 0)
	l.leads("b", 16, 20)
	l.add(21, "a", "patch", "machines", 200)
	l.add(22, "a", "delete", "machines", 409)
	l.add(23, "a", "get", "machines", 200)
	l.leads("a", 40, 40) // its next term: what it writes now is not late
	l.add(41, "a", "patch", "machines", 200)
	got := Takeovers("managers", l.events)
	require.Len(t, got, 2)
	require.Equal(t, 1, got[0].Late)
	require.Equal(t, 1, got[0].Refused)
	require.Zero(t, got[1].Late)
}

func TestAProcessMayLeadAfterItself(t *testing.T) {
	var l led
	l.leads("a", 0, 4)
	l.leads("a", 20, 20)
	l.add(21, "a", "patch", "machines", 200)
	got := Takeovers("managers", l.events)
	require.Len(t, got, 1)
	require.Equal(t, "a", got[0].From)
	require.Equal(t, "a", got[0].To)
	require.Zero(t, got[0].Late)
}
