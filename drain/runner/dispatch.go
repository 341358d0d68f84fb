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

// job is one request under way. It carries what the end has to undo, because the attempt may vanish meanwhile.
type job struct {
	ref    PodRef
	node   string
	budget types.NamespacedName
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
			running.Go(func() { r.evict(ctx, j) })
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
		r.turn++
		if j, ok := r.takeLocked(ns, now); ok {
			jobs, idleTurns = append(jobs, j), 0
		} else {
			idleTurns++
		}
	}
	return jobs, 0
}

func (r *Runner) takeLocked(ns *nodeState, now time.Time) (job, bool) {
	for i, uid := range ns.queue {
		a := ns.attempts[uid]
		if a.budget != (types.NamespacedName{}) {
			b := r.budgetLocked(a.budget)
			if b.inFlight >= b.limit || now.Before(b.restUntil) {
				continue
			}
			b.inFlight++
		}
		ns.queue = slices.Delete(ns.queue, i, i+1)
		a.state = inFlight
		r.inFlight++
		return job{ref: a.ref, node: a.node, budget: a.budget}, true
	}
	return job{}, false
}

func (r *Runner) evict(ctx context.Context, j job) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	err := r.cfg.Evictor.Evict(call, j.ref, EvictOptions{})
	cancel()
	stillThere := err != nil && r.shows(j)
	r.finish(j, err, stillThere, ctx.Err() != nil)
	r.kickDispatcher()
	r.wakeNode(j.node)
}

// shows asks the source for one pod. A source that has lost touch counts as showing it: nothing is taken for gone.
func (r *Runner) shows(j job) bool {
	r.mu.Lock()
	known := r.nodes[j.node] != nil
	r.mu.Unlock()
	if !known { // asking would make the source look at a released Node again
		return true
	}
	pods, synced, err := r.cfg.Pods.Pods(j.node)
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
	b := r.budgets[j.budget]
	if b != nil {
		b.inFlight = max(0, b.inFlight-1)
	}
	a := r.attempts[j.ref.UID]
	if a == nil || a.state != inFlight {
		return
	}
	if stopping && err != nil {
		r.releaseTokenLocked(a)
		a.state = idle
		return
	}
	r.adaptLocked(outcome, b, err, now)
	switch outcome.Class {
	case drain.Accepted, drain.Gone:
		a.state, a.failures, a.retryAt = accepted, 0, now.Add(max(acceptedFor, outcome.RetryAfter))
		if outcome.Class == drain.Gone {
			r.releaseTokenLocked(a)
			a.retryAt = now.Add(r.cfg.ProbeInterval)
		}
		if b != nil {
			a.seenRV = b.seenRV
		}
	case drain.Throttled, drain.Unauthorized:
		a.state = queued // says nothing about the pod
		if ns := r.nodes[j.node]; ns != nil {
			ns.queue = slices.Insert(ns.queue, 0, a.ref.UID)
		}
	default:
		r.restLocked(a, outcome, now)
	}
}

func (r *Runner) restLocked(a *attempt, o drain.Outcome, now time.Time) {
	a.failures++
	a.state, a.hold = resting, drain.HoldFor(o)
	a.retryAt = now.Add(backoff(o, a.failures, r.cfg.ProbeInterval))
	if a.token {
		r.releaseTokenLocked(a)
		r.wakeWaitersLocked(a.budget)
	}
}

// adaptLocked lets an answer change how fast everybody, or everybody behind the same budget, may go on.
func (r *Runner) adaptLocked(o drain.Outcome, b *budgetState, err error, now time.Time) {
	switch o.Class {
	case drain.Throttled, drain.Unauthorized:
		r.limit = max(1, r.limit/2)
		r.paused = pause{until: now.Add(o.RetryAfter), hold: drain.HoldFor(o)}
		if o.Class == drain.Unauthorized {
			r.paused.refused = err
		}
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

// recallLocked takes back what waits in queues for a budget that has just refused: each would only earn the same answer.
func (r *Runner) recallLocked(b *budgetState) {
	for _, a := range b.tokens {
		if a.state != queued {
			continue
		}
		r.releaseTokenLocked(a)
		a.state = idle
		if ns := r.nodes[a.node]; ns != nil {
			ns.queue = slices.DeleteFunc(ns.queue, func(uid types.UID) bool { return uid == a.ref.UID })
		}
		r.wakeLocked(a.node)
	}
}

// backoff returns how long one pod rests: the class's own time, doubled with every failure in a row up to a limit.
func backoff(o drain.Outcome, failures int, probe time.Duration) time.Duration {
	limit := o.RetryAfter
	switch o.Class {
	case drain.BudgetExhausted:
		return probe
	case drain.Forbidden, drain.MultipleBudgets, drain.EndpointMissing, drain.Invalid:
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
