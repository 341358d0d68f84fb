package runner

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// queue decides which request is sent next: Nodes take turns, within the limits. The lock of the Runner guards it.
type queue struct {
	ring             []*nodeState // each Node goes to the end after its turn
	inFlight         int
	limit            int // of requests in flight: halved by throttling, increased by each success
	workers, perNode int // the most in flight, and of one Node
	paused           pause
}

// pause delays all requests.
type pause struct {
	until   time.Time
	hold    drain.Hold
	refused error // the API server refused the credentials
}

// next removes from the queues of the Nodes the request that may be sent now, if any. wait is when to call again even if nothing changes,
// after it returned none; 0 means never.
func (q *queue) next(now time.Time) (request *attempt, wait time.Duration) {
	if now.Before(q.paused.until) {
		return nil, q.paused.until.Sub(now)
	}
	if q.inFlight >= q.limit {
		return nil, 0
	}
	for i, ns := range q.ring {
		if a := q.take(ns, now); a != nil {
			q.ring = append(slices.Delete(q.ring, i, i+1), ns)
			return a, 0
		}
	}
	return nil, 0
}

// take returns the first request of a Node that may be sent now, and counts it.
func (q *queue) take(ns *nodeState, now time.Time) *attempt {
	if ns.inFlight >= q.perNode {
		return nil
	}
	at := slices.IndexFunc(ns.queue, func(uid types.UID) bool { return ns.attempts[uid].budget.admits(now) })
	if at < 0 {
		return nil
	}
	a := ns.attempts[ns.queue[at]]
	ns.queue = slices.Delete(ns.queue, at, at+1)
	a.state = inFlight
	q.count(a, 1)
	return a
}

// count adds n to the requests in flight that a belongs to.
func (q *queue) count(a *attempt, n int) {
	q.inFlight += n
	a.ns.inFlight += n
	if a.budget != nil {
		a.budget.inFlight += n
	}
}

// answered adapts the pace of all requests to an answer. Requests that were in flight together halve the limit once, because one overload
// answers them all.
func (q *queue) answered(o drain.Outcome, err error, now time.Time) {
	if o.Class != drain.Throttled && o.Class != drain.Unauthorized {
		q.paused.refused = nil
		if o.Class == drain.Accepted {
			q.limit = min(q.workers, q.limit+1)
		}
		return
	}
	if !now.Before(q.paused.until) {
		q.limit = max(1, q.limit/2)
	}
	if until := now.Add(o.RetryAfter); until.After(q.paused.until) {
		q.paused.until = until
	}
	q.paused.hold = drain.HoldFor(o)
	if o.Class == drain.Unauthorized {
		q.limit, q.paused.refused = 1, err // one request tests whether the credentials are accepted again
	}
}
