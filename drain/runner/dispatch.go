package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
)

// dispatch sends requests until ctx or a source ends, and returns when all requests have ended.
func (r *Runner) dispatch(ctx context.Context, sourceEnded <-chan error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for ctx.Err() == nil {
		requests, wait := r.pick(r.cfg.Clock.Now())
		for _, a := range requests {
			running.Go(func() { r.send(ctx, a) })
		}
		var again <-chan time.Time
		if wait > 0 {
			again = r.cfg.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
		case err := <-sourceEnded:
			if err != nil {
				return fmt.Errorf("drain runner: %w", err)
			}
			return nil
		case <-r.kick:
		case <-again:
		}
	}
	return nil
}

func (r *Runner) pick(now time.Time) (requests []*attempt, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next(now)
}

func (r *Runner) send(ctx context.Context, a *attempt) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	err := ctx.Err() // it may have ended after the request was taken from the queue
	switch {
	case err != nil:
	case a.action == drain.Delete:
		err = r.cfg.Deleter.Delete(call, a.ref, DeleteOptions{GracePeriodSeconds: a.grace})
	default:
		err = r.cfg.Evictor.Evict(call, a.ref, EvictOptions{GracePeriodSeconds: a.grace})
	}
	cancel()
	stillThere := err != nil && r.shows(a)
	r.finish(a, err, stillThere, ctx.Err() != nil)
	r.kickDispatcher()
	r.wakeNode(a.ns.name)
}

// shows asks the source for one Pod. A source that is not synced counts as showing it: unknown is not gone.
func (r *Runner) shows(a *attempt) bool {
	pods, synced, err := r.podsOf(a.ns.name, a.ns.uid)
	return err != nil || !synced || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == a.ref.UID })
}

// finish records the answer to a request.
func (r *Runner) finish(a *attempt, err error, stillThere, stopping bool) {
	now := r.cfg.Clock.Now()
	outcome := drain.Classify(err, stillThere)
	r.cfg.Metrics.answered(outcome.Class)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(a, -1)
	if stopping && err != nil {
		a.releaseToken()
		a.state = idle
		return
	}
	r.answered(outcome, err, now)
	if a.budget.answered(outcome, r.cfg.MaxInFlightPerBudget, r.cfg.ProbeInterval, now) {
		r.recallLocked(a.budget)
	}
	dropped := r.nodes[a.ns.name] != a.ns || a.ns.attempts[a.ref.UID] != a // the Pod is gone, or the Node was released
	switch {
	case outcome.Class == drain.Accepted || outcome.Class == drain.Gone:
		a.succeeded(outcome, r.cfg.ProbeInterval, now)
		return
	case !dropped && (outcome.Class == drain.Throttled || outcome.Class == drain.Unauthorized):
		a.state = queued // the answer does not concern the Pod; if it does, the other Pods of the Node are first
		a.ns.queue = append(a.ns.queue, a.ref.UID)
		return
	case !dropped:
		a.refused(outcome, r.cfg.ProbeInterval, now)
	}
	if a.budget != nil && (a.token || dropped) {
		a.releaseToken()
		r.wakeWaitersLocked(a.budget.name)
	}
}

// recallLocked removes queued requests for a budget that refused one: they would get the same answer. For hopeless Pods the refusal was
// expected, and a webhook may act on each request.
func (r *Runner) recallLocked(b *budgetState) {
	for _, a := range b.tokens {
		if a.state == queued && a.against.Reason == "" {
			a.withdraw()
			r.wakeLocked(a.ns)
		}
	}
}
