package runner

import (
	"slices"
	"time"

	"github.com/machinist-dev/machinist/drain"
)

// queue selects the next request: Nodes take turns, within the limits. The lock of the Runner guards it.
type queue struct {
	ring     []*nodeState // each Node goes to the end after its turn
	inFlight int
	workers  int // limit of requests in flight
	paused   pause
}

// pause delays all requests.
type pause struct {
	until time.Time
	hold  drain.Hold
}

// next removes the request that may be sent now from the queues of the Nodes, if there is one. Otherwise wait is when to call again even if
// nothing changes; 0 means never.
func (q *queue) next(now time.Time) (request *attempt, wait time.Duration) {
	if now.Before(q.paused.until) {
		return nil, q.paused.until.Sub(now)
	}
	if q.inFlight >= q.workers {
		return nil, 0
	}
	for i, ns := range q.ring {
		if len(ns.queue) > 0 {
			a := ns.attempts[ns.queue[0]]
			ns.queue = ns.queue[1:]
			a.state = inFlight
			q.inFlight++
			q.ring = append(slices.Delete(q.ring, i, i+1), ns)
			return a, 0
		}
	}
	return nil, 0
}

// answered delays all requests after a response that is not about the Pod.
func (q *queue) answered(o drain.Outcome, now time.Time) {
	if o.Reason != drain.ReasonThrottled && o.Reason != drain.ReasonUnauthorized {
		return
	}
	if until := now.Add(o.RetryAfter); until.After(q.paused.until) {
		q.paused.until = until
	}
	q.paused.hold = drain.Hold{Reason: o.Reason, Message: o.Message}
}
