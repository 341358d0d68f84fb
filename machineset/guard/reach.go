package guard

import (
	"slices"
	"time"
)

// reach is the state of one API server. The zero reach has not responded yet.
type reach struct {
	// answered: it has responded once. frozen: it has not responded for the tolerance.
	answered, frozen bool
	// downSince is when the first of the present series of failed probes failed; zero while it responds.
	downSince time.Time
	// thawedAt is when it responded again after it was frozen, or for the first time: facts that depend on it are not older.
	thawedAt time.Time
}

// observe returns the state after a probe. Rule: Gardener's reconcileClusterMachineSafetyAPIServer.
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

// next returns the delay before the next probe: the period while the server responds, and a fifth of the tolerance while it does not, which
// is Gardener's rule. A server that has not responded yet is probed each second of the first tolerance, because a connection starts.
func (r reach) next(period, tolerance time.Duration) time.Duration {
	switch {
	case r.answered && r.downSince.IsZero():
		return period
	case !r.answered && !r.frozen:
		return min(time.Second, period)
	}
	return min(max(tolerance/5, time.Second), period)
}

// both returns the state for an object that depends on two servers: it is frozen while one of them is, and its timers begin when the later
// one has responded.
func both(a, b reach) reach {
	return reach{answered: a.answered && b.answered, frozen: a.frozen || b.frozen, thawedAt: later(a.thawedAt, b.thawedAt)}
}

func later(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }
