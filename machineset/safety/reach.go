package safety

import (
	"cmp"
	"time"
)

// Reach is what is known about one API server. The zero Reach has not answered yet. It is a value: keep the last one.
type Reach struct {
	// Answered: it has answered once.
	Answered bool
	// DownSince is when the first of the probes failed that have all failed since; zero while it answers.
	DownSince time.Time
	// FrozenSince is when it had not answered for the tolerance; zero while nothing is frozen.
	FrozenSince time.Time
	// ThawedAt is when it answered again after that, or for the first time: nothing that was read about what depends on it is older than
	// that. It is what a health check starts its timers from, see Timer.
	ThawedAt time.Time
}

// Observe returns what is known after a probe. Rule: Gardener's reconcileClusterMachineSafetyAPIServer.
func (r Reach) Observe(answered bool, now time.Time, tolerance time.Duration) Reach {
	switch {
	case answered:
		if !r.Answered || r.IsFrozen() {
			r.ThawedAt = now
		}
		r.Answered, r.DownSince, r.FrozenSince = true, time.Time{}, time.Time{}
		return r
	case r.DownSince.IsZero() || now.Before(r.DownSince): // a clock that was set back begins anew
		r.DownSince = now
	}
	if !r.IsFrozen() && now.Sub(r.DownSince) >= tolerance {
		r.FrozenSince = now
	}
	return r
}

// IsFrozen reports whether the server has not answered for the tolerance.
func (r Reach) IsFrozen() bool { return !r.FrozenSince.IsZero() }

// Next is when to probe the server again: after period while it answers, and five times in the tolerance while it does not, which is
// Gardener's rule. A server that has not answered yet is probed each second of the first tolerance: a connection begins.
func (r Reach) Next(period, tolerance time.Duration) time.Duration {
	switch {
	case r.Answered && r.DownSince.IsZero():
		return period
	case !r.Answered && !r.IsFrozen():
		return min(time.Second, period)
	}
	return min(max(tolerance/5, time.Second), period)
}

// Timer returns when a timer of a health check has begun that would begin at since: not before the server answered again, so that a fleet
// that could not report during an outage is not replaced at its end. A frozen server lets no timer run: look at IsFrozen first.
func (r Reach) Timer(since time.Time) time.Time {
	if since.Before(r.ThawedAt) {
		return r.ThawedAt
	}
	return since
}

// Both returns what is known about an object that depends on two servers: it is frozen while one of them is, and its timers begin when the
// later one has answered.
func Both(a, b Reach) Reach {
	return Reach{
		Answered: a.Answered && b.Answered, DownSince: cmp.Or(a.DownSince, b.DownSince), FrozenSince: cmp.Or(a.FrozenSince, b.FrozenSince),
		ThawedAt: b.Timer(a.ThawedAt),
	}
}
