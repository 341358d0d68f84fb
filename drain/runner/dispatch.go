package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// acceptedFor is how long a pod may look alive after the server accepted its eviction before it is asked for again.
const acceptedFor = 30 * time.Second

// job is one request under way. It carries what the end has to undo, because the attempt may be dropped meanwhile.
type job struct {
	ref    PodRef
	node   string
	action drain.Action
	grace  *int64
	// What the request is booked on. The Node may be released, and even be drained again, before the request ends.
	attempt *attempt
	ns      *nodeState
	budget  *budgetState // nil without a budget
}

// dispatch starts requests until ctx ends or the pod source fails, and returns when all of them have ended.
func (r *Runner) dispatch(ctx context.Context, sourceEnded <-chan error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for ctx.Err() == nil {
		jobs, wait := r.pick(r.cfg.Clock.Now())
		for _, j := range jobs {
			running.Go(func() { r.send(ctx, j) })
		}
		select {
		case <-ctx.Done():
		case err := <-sourceEnded:
			if err != nil {
				return fmt.Errorf("drain runner: source of pods or volumes: %w", err)
			}
			return nil
		case <-r.kick:
		case <-r.after(wait):
		}
	}
	return nil
}

// after returns a channel that never fires for 0.
func (r *Runner) after(wait time.Duration) <-chan time.Time {
	if wait <= 0 {
		return nil
	}
	return r.cfg.Clock.After(wait)
}

// pick takes from the Nodes' queues in turn what may be sent now. wait is when to look again without being kicked; 0
// means only then.
func (r *Runner) pick(now time.Time) (jobs []job, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.paused.until) {
		return nil, r.paused.until.Sub(now)
	}
	for idleTurns := 0; r.inFlight < r.limit && idleTurns < len(r.ring); {
		r.turn %= len(r.ring)
		ns := r.nodes[r.ring[r.turn]]
		if wait = r.rate.wait(now); wait > 0 {
			return jobs, wait
		}
		r.turn++
		if j, ok := r.takeLocked(ns, now); ok {
			r.rate.take()
			jobs, idleTurns = append(jobs, j), 0
		} else {
			idleTurns++
		}
	}
	return jobs, 0
}

func (r *Runner) takeLocked(ns *nodeState, now time.Time) (job, bool) {
	if ns.inFlight >= r.cfg.MaxInFlightPerNode {
		return job{}, false
	}
	for i, uid := range ns.queue {
		a := ns.attempts[uid]
		var b *budgetState
		if a.budget != (types.NamespacedName{}) {
			b = r.budgetLocked(a.budget)
			if b.inFlight >= b.limit || now.Before(b.restUntil) {
				continue
			}
			b.inFlight++
		}
		ns.queue = slices.Delete(ns.queue, i, i+1)
		a.state = inFlight
		ns.inFlight++
		r.inFlight++
		return job{ref: a.ref, node: a.node, action: a.action, grace: a.grace, attempt: a, ns: ns, budget: b}, true
	}
	return job{}, false
}

func (r *Runner) send(ctx context.Context, j job) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	err := ctx.Err() // it may have ended after the job was taken
	switch {
	case err != nil:
	case j.action == drain.Delete:
		err = r.cfg.Deleter.Delete(call, j.ref, DeleteOptions{GracePeriodSeconds: j.grace})
	default:
		err = r.cfg.Evictor.Evict(call, j.ref, EvictOptions{GracePeriodSeconds: j.grace})
	}
	cancel()
	stillThere := err != nil && r.shows(j)
	r.finish(j, err, stillThere, ctx.Err() != nil)
	r.kickDispatcher()
	r.wakeNode(j.node)
}

// shows asks the source for one pod. A source that has lost touch counts as showing it: nothing is taken for gone.
func (r *Runner) shows(j job) bool {
	pods, synced, err := r.podsOf(j.node, j.ns.uid)
	if err != nil || !synced {
		return true
	}
	for _, pod := range pods {
		if pod.UID == j.ref.UID {
			return true
		}
	}
	return false
}

// finish books the answer to a request.
func (r *Runner) finish(j job, err error, stillThere, stopping bool) {
	now := r.cfg.Clock.Now()
	outcome := drain.Classify(err, stillThere)
	r.cfg.Metrics.answered(outcome.Class)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	j.ns.inFlight--
	if j.budget != nil {
		j.budget.inFlight--
	}
	a := j.attempt
	if stopping && err != nil {
		r.releaseTokenLocked(a)
		a.state = idle
		return
	}
	r.adaptLocked(outcome, j.budget, err, now)
	dropped := r.attempts[j.ref.UID] != a // the pod is gone, or the Node was released
	switch {
	case outcome.Class == drain.Accepted || outcome.Class == drain.Gone:
		a.state, a.failures, a.retryAt = accepted, 0, now.Add(max(acceptedFor, outcome.RetryAfter))
		if outcome.Class == drain.Accepted && a.token && j.budget != nil && !now.Before(j.budget.closedUntil) {
			j.budget.closedRV = "" // a probe went through
		}
		if outcome.Class == drain.Gone {
			r.releaseTokenLocked(a)
			a.retryAt = now.Add(r.cfg.ProbeInterval)
		}
		if j.budget != nil {
			a.seenRV = j.budget.seenRV
		}
		j.ns.respawns.evicted(a.ref.UID, a.controller, now)
	case dropped:
		r.releaseTokenLocked(a)
		r.wakeWaitersLocked(a.budget)
	case outcome.Class == drain.Throttled || outcome.Class == drain.Unauthorized:
		a.state = queued // says nothing about the pod; if it does all the same, the others of its Node come first
		j.ns.queue = append(j.ns.queue, a.ref.UID)
	default:
		r.restLocked(a, outcome, now)
	}
}

func (r *Runner) restLocked(a *attempt, o drain.Outcome, now time.Time) {
	a.failures++
	a.state, a.hold = resting, drain.HoldFor(o)
	against := a.against.Reason != ""
	if against && (o.Class == drain.BudgetExhausted || o.Class == drain.MultipleBudgets) {
		a.hold = drain.Hold{} // the plan says more about it, and sees when it is over
	}
	a.retryAt = now.Add(backoff(o, a.failures, against, r.cfg.ProbeInterval))
	a.seenRV = ""
	if b := r.budgets[a.budget]; b != nil && !against && (o.Class == drain.BudgetExhausted || o.Class == drain.BudgetStale) {
		a.seenRV = b.seenRV
	}
	if a.token {
		r.releaseTokenLocked(a)
		r.wakeWaitersLocked(a.budget)
	}
}

// adaptLocked lets an answer change how fast everybody, or everybody behind the same budget, may go on.
func (r *Runner) adaptLocked(o drain.Outcome, b *budgetState, err error, now time.Time) {
	switch o.Class {
	case drain.Throttled, drain.Unauthorized:
		r.pauseLocked(o, err, now)
		return
	case drain.Accepted:
		r.limit = min(r.cfg.Workers, r.limit+1)
	default:
	}
	r.paused.refused = nil
	if b == nil {
		return
	}
	switch o.Class {
	case drain.Accepted:
		b.limit = min(r.cfg.MaxInFlightPerBudget, b.limit+1)
	case drain.BudgetExhausted, drain.BudgetStale:
		b.closedRV, b.closedUntil = b.seenRV, now.Add(r.cfg.ProbeInterval)
		b.probeAt = b.closedUntil
		r.recallLocked(b)
	case drain.BudgetOverloaded:
		b.restUntil = now.Add(o.RetryAfter)
		r.recallLocked(b)
	case drain.BudgetContention:
		b.limit = max(1, b.limit/2)
	default:
	}
}

// pauseLocked stops everybody for a while. Requests that were under way together count as one: they all ran into the same
// trouble.
func (r *Runner) pauseLocked(o drain.Outcome, err error, now time.Time) {
	if !now.Before(r.paused.until) {
		r.limit = max(1, r.limit/2)
	}
	if until := now.Add(o.RetryAfter); until.After(r.paused.until) {
		r.paused.until = until
	}
	r.paused.hold = drain.HoldFor(o)
	if o.Class == drain.Unauthorized {
		r.limit, r.paused.refused = 1, err // one request finds out whether the credentials are good again
	}
}

// recallLocked takes back what waits in queues for a budget that has just refused: each would only earn the same answer. Of
// hopeless pods that was known before; a webhook may look at each.
func (r *Runner) recallLocked(b *budgetState) {
	for _, a := range b.tokens {
		if a.state != queued || a.against.Reason != "" {
			continue
		}
		if ns := r.nodes[a.node]; ns != nil {
			r.withdrawLocked(ns, a)
		}
		r.wakeLocked(a.node)
	}
}

// withdrawLocked takes one pod back out of its Node's queue.
func (r *Runner) withdrawLocked(ns *nodeState, a *attempt) {
	r.releaseTokenLocked(a)
	a.state = idle
	ns.queue = slices.DeleteFunc(ns.queue, func(uid types.UID) bool { return uid == a.ref.UID })
}

// backoff returns how long one pod rests: the class's own time, doubled with every failure in a row up to a limit. A closed
// budget may open at any time and is tried after probe, unless the plan was against the request: it knows that it never opens.
func backoff(o drain.Outcome, failures int, against bool, probe time.Duration) time.Duration {
	limit := o.RetryAfter
	switch o.Class {
	case drain.BudgetExhausted:
		if !against {
			return probe
		}
		o.RetryAfter, limit = minProbeRest, maxProbeRest
	case drain.Forbidden, drain.AdmissionDenied, drain.MultipleBudgets, drain.EndpointMissing, drain.Invalid:
		limit = 5 * time.Minute
	case drain.ServerError:
		limit = time.Minute
	case drain.UnknownOutcome:
		limit = 30 * time.Second
	case drain.Conflict:
		limit = 2 * time.Second
	default:
	}
	d := o.RetryAfter
	for range failures - 1 {
		if d >= limit {
			break
		}
		d *= 2
	}
	return max(o.RetryAfter, min(d, limit))
}
