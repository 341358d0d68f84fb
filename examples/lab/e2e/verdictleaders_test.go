package e2e_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const (
	// longPause is between two renewals of a Lease by one user: a longer one is between two processes, or between two terms of one.
	longPause = 10 * time.Second
	// beginOfTerm is the time for which Takeover.Requests counts.
	beginOfTerm = 10 * time.Second
)

// Takeover is the moment at which another process began to lead.
type Takeover struct {
	// From is the user that led before, and To the one that leads from At on. They are the same when a process has led again.
	From, To string
	At       time.Time
	// Vacant is the time from the last renewal of From to the first write of the Lease by To.
	Vacant time.Duration
	// Idle is the time from the last write of From that was accepted while it led to the first one of To, both without the Lease's. It is
	// zero when one of them is missing.
	Idle time.Duration
	// Late are the writes of From after At that were accepted, and Refused those that were not: a process that was stopped for longer than
	// its Lease lasts makes them when it goes on. They end with its next term.
	Late, Refused int
	// Requests are those of To in the first ten seconds of its term, watches and the Lease excepted.
	Requests int
}

// String returns the takeover in one line.
func (t Takeover) String() string {
	return fmt.Sprintf("%s after %s: no leader for %s, no write for %s, %d late writes accepted and %d refused, %d requests in its first %s",
		t.To, t.From, t.Vacant.Round(100*time.Millisecond), t.Idle.Round(100*time.Millisecond), t.Late, t.Refused, t.Requests, beginOfTerm)
}

// Takeovers returns who led after whom, as the accepted writes to a Lease say, in the order of time. A process is known by its user.
func Takeovers(lease string, events cluster.AuditEvents) []Takeover {
	events = slices.SortedStableFunc(slices.Values(events), func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) })
	var all []Takeover
	var last cluster.AuditEvent
	for _, e := range events {
		if e.Resource != "leases" || e.Name != lease || !accepted(e) {
			continue
		}
		if last.User != "" && (e.User != last.User || e.Received.Sub(last.Received) > longPause) {
			all = append(all, Takeover{From: last.User, To: e.User, At: e.Received, Vacant: e.Received.Sub(last.Received)})
		}
		last = e
	}
	for i := range all {
		all[i].count(events, all[i+1:])
	}
	return all
}

// count adds what the events say about the term that the takeover begins. Later are the takeovers after it.
func (t *Takeover) count(events cluster.AuditEvents, later []Takeover) {
	events = events.Where(func(e cluster.AuditEvent) bool { return e.Resource != "leases" && e.Verb != "watch" })
	begun := slices.IndexFunc(events, func(e cluster.AuditEvent) bool { return !e.Received.Before(t.At) })
	if begun < 0 {
		return
	}
	before, after := events[:begun], events[begun:]
	of := func(user string, list cluster.AuditEvents) cluster.AuditEvents {
		return list.Where(func(e cluster.AuditEvent) bool { return e.User == user })
	}
	t.Requests = len(of(t.To, after).Where(func(e cluster.AuditEvent) bool { return e.Received.Before(t.At.Add(beginOfTerm)) }))
	last, first := of(t.From, before).Where(accepted), of(t.To, after).Where(accepted)
	if len(last) > 0 && len(first) > 0 {
		t.Idle = first[0].Received.Sub(last[len(last)-1].Received)
	}
	if t.From == t.To {
		return
	}
	late := of(t.From, after).Writes()
	if again := slices.IndexFunc(later, func(l Takeover) bool { return l.To == t.From }); again >= 0 {
		late = late.Where(func(e cluster.AuditEvent) bool { return e.Received.Before(later[again].At) })
	}
	t.Late = len(late.Where(accepted))
	t.Refused = len(late) - t.Late
}

func accepted(e cluster.AuditEvent) bool { return e.Code >= 200 && e.Code < 300 && e.IsWrite() }
