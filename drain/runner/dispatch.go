package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/drain"
)

// dispatch sends requests until ctx or a source ends, and returns when all requests have ended.
func (r *Runner) dispatch(ctx context.Context, sourceEnded <-chan error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for ctx.Err() == nil {
		a, wait := r.pick()
		if a != nil {
			running.Go(func() { r.send(ctx, a) })
			continue
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

// pick removes the next request from the queue, if one may be sent now. wait is that of [queue.next].
func (r *Runner) pick() (request *attempt, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next(r.cfg.Clock.Now())
}

// SendNext sends the next queued request, by the rules of Start, and returns after its response. A caller with its own schedule, such as a
// simulation, calls it instead of Start: then the Runner has no goroutine. Steps may be called while it waits for the response. sent is
// false when no request may be sent now. Then again is the time until one may be sent even if nothing changes; 0 means that only a Step or
// a response changes that.
//
// Without Start nothing is watched: the caller updates the PodSource, and calls Step when something changes. Responses wake Sources.
func (r *Runner) SendNext(ctx context.Context) (sent bool, again time.Duration) {
	a, again := r.pick()
	if a == nil {
		return false, again
	}
	r.send(ctx, a)
	return true, 0
}

func (r *Runner) send(ctx context.Context, a *attempt) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	err := ctx.Err() // it may have ended after the request was taken from the queue
	switch {
	case err != nil:
	case a.action == drain.Delete:
		err = r.cfg.Evictor.Delete(call, a.ref, a.grace)
	default:
		err = r.cfg.Evictor.Evict(call, a.ref, a.grace)
	}
	cancel()
	r.finish(a, err, ctx.Err() != nil)
	r.kickDispatcher()
	r.wakeNode(a.ns.name)
}

// finish records the response to a request. The Pod still exists if it was in the last Step.
func (r *Runner) finish(a *attempt, err error, stopping bool) {
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	dropped := r.nodes[a.ns.name] != a.ns || a.ns.attempts[a.ref.UID] != a // the Pod is gone, or the Node was released
	outcome := drain.Classify(err, !dropped)
	if m := r.cfg.Metrics; m != nil {
		m.WithLabelValues(string(outcome.Reason)).Inc()
	}
	r.inFlight--
	if stopping && err != nil {
		a.releaseToken()
		a.state = idle
		return
	}
	r.answered(outcome, now)
	if a.budget.answered(outcome, now) {
		r.recallLocked(a.budget)
	}
	switch {
	case outcome.Reason == drain.ReasonEvictionAccepted || outcome.Reason == drain.ReasonGone:
		a.succeeded(outcome, now)
		return
	case !dropped && (outcome.Reason == drain.ReasonThrottled || outcome.Reason == drain.ReasonUnauthorized):
		a.state = queued // the response is probably not about the Pod; if it is, the other Pods of the Node go first
		a.ns.queue = append(a.ns.queue, a.ref.UID)
		return
	case !dropped:
		a.refused(outcome, now)
	}
	if a.budget != nil && (a.token || dropped) {
		a.releaseToken()
		r.wakeWaitersLocked(a.budget.name)
	}
}

// recallLocked removes queued requests for a budget that refused one: they would get the same response. For hopeless Pods the refusal was
// expected, and a webhook may act on each request.
func (r *Runner) recallLocked(b *budgetState) {
	for _, a := range b.tokens {
		if a.state == queued && !a.hopeless {
			a.withdraw()
			r.wakeLocked(a.ns)
		}
	}
}

// sink is called when the state of a Node changes. It must not block.
type sink func(node string, owner types.NamespacedName)

// Source returns an event source for a controller. It enqueues the Owner of a Node, after Config.Debounce, when the Pods of the Node
// change, a budget that holds one of them changes, or a request is answered. Every source enqueues all owners.
func (r *Runner) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		remove := r.addSink(func(_ string, owner types.NamespacedName) {
			queue.AddAfter(reconcile.Request{NamespacedName: owner}, r.cfg.Debounce)
		})
		context.AfterFunc(ctx, remove)
		return nil
	})
}

func (r *Runner) addSink(wake sink) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sinks[&wake] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sinks, &wake)
	}
}

// wakeNode wakes the owner of a Node; the empty name means all Nodes.
func (r *Runner) wakeNode(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ns := range r.ring {
		if node == "" || node == ns.name {
			r.wakeLocked(ns)
		}
	}
}

func (r *Runner) wakeLocked(ns *nodeState) {
	for s := range r.sinks {
		(*s)(ns.name, ns.owner)
	}
}

// wakeWaitersLocked wakes the Nodes with a Pod that waits for a budget.
func (r *Runner) wakeWaitersLocked(budget types.NamespacedName) {
	for _, ns := range r.ring {
		if ns.waits[budget] {
			r.wakeLocked(ns)
		}
	}
}

// wakeWaiters calls wakeWaitersLocked when the budget has changed.
func (r *Runner) wakeWaiters(budget types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeWaitersLocked(budget)
}
