package runner

import (
	"time"
)

// report completes a result with what is known about the past and the queue, and decides whether the drain has ended, or the Pods are to be
// listed again to confirm that. refused says that the credentials are refused.
func (r *Runner) report(ns *nodeState, result *Result, done bool, now time.Time) (confirm bool, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.paused.until) {
		refused = r.paused.refused
	}
	ns.blockedSince(result, now)
	for _, a := range ns.attempts {
		if a.state == resting {
			result.againAt(a.retryAt, now)
		}
	}
	if !done {
		ns.listedAgain = false
		return false, refused
	}
	return result.settle(ns, r.cfg.Settle, now), refused
}

// blockedSince sets since when each blocker is known.
func (ns *nodeState) blockedSince(result *Result, now time.Time) {
	before := ns.blocked
	ns.blocked = make(map[string]time.Time, len(result.Blockers))
	for i := range result.Blockers {
		b := &result.Blockers[i]
		b.Since = now
		if at, known := before[b.Key()]; known {
			b.Since = at
		}
		ns.blocked[b.Key()] = b.Since
	}
}
