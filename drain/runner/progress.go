package runner

import (
	"time"
)

// progress is what was reported about the drain of one Node.
type progress struct {
	begun time.Time // first report
	done  bool
	since map[string]time.Time // by key of the blockers of the last report
}

// report completes a result with what is known about the past and the queue, and decides whether the drain has ended, or the Pods are to be
// listed again to confirm that. refused says that the credentials are refused.
func (r *Runner) report(ns *nodeState, result *Result, done bool, now time.Time) (confirm bool, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.paused.until) {
		refused = r.paused.refused
	}
	p := &ns.progress
	if p.done && !done {
		*p = progress{} // drained before, and now Pods are on the Node again
	}
	p.look(result, now)
	for _, a := range ns.attempts {
		if a.state == resting {
			result.againAt(a.retryAt, now)
		}
	}
	if p.begun.IsZero() {
		p.begun = now
	}
	if !done {
		ns.listedAgain = false
		return false, refused
	}
	confirm = result.settle(ns, r.cfg.Settle, now)
	if result.Done && !p.done {
		p.done = true
		r.cfg.Metrics.drained(now.Sub(p.begun), resultDrained)
	}
	return confirm, refused
}

// look sets since when each blocker is known.
func (p *progress) look(result *Result, now time.Time) {
	since := make(map[string]time.Time, len(result.Blockers))
	for i := range result.Blockers {
		b := &result.Blockers[i]
		key := b.Key()
		at, known := p.since[key]
		if !known {
			at = now
		}
		b.Since, since[key] = at, at
	}
	p.since = since
}
