package guard

import (
	"slices"
	"time"
)

// reach is what is known about one API server. The zero reach has not answered yet.
type reach struct {
	// answered: it has answered once. frozen: it has not answered for the tolerance.
	answered, frozen bool
	// downSince is when the first of the probes failed that have all failed since; zero while it answers.
	downSince time.Time
	// thawedAt is when it answered again after it was frozen, or for the first time: nothing that was read about what depends on it is older
	// than that.
	thawedAt time.Time
}

// observe returns what is known after a probe. Rule: Gardener's reconcileClusterMachineSafetyAPIServer.
func (r reach) observe(answered bool, now time.Time, tolerance time.Duration) reach {
	if answered {
		if r.silent() {
			r.thawedAt = now
		}
		return reach{answered: true, thawedAt: r.thawedAt}
	}
	if r.downSince.IsZero() || now.Before(r.downSince) { // a clock that was set back begins anew
		r.downSince = now
	}
	r.frozen = r.frozen || now.Sub(r.downSince) >= tolerance
	return r
}

// silent reports whether nothing that depends on the server can be judged.
func (r reach) silent() bool { return !r.answered || r.frozen }

// next is when to probe the server again: after period while it answers, and five times in the tolerance while it does not, which is
// Gardener's rule. A server that has not answered yet is probed each second of the first tolerance: a connection begins.
func (r reach) next(period, tolerance time.Duration) time.Duration {
	switch {
	case r.answered && r.downSince.IsZero():
		return period
	case !r.answered && !r.frozen:
		return min(time.Second, period)
	}
	return min(max(tolerance/5, time.Second), period)
}

// both returns what is known about an object that depends on two servers: it is frozen while one of them is, and its timers begin when the
// later one has answered.
func both(a, b reach) reach {
	return reach{answered: a.answered && b.answered, frozen: a.frozen || b.frozen, thawedAt: later(a.thawedAt, b.thawedAt)}
}

func later(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
