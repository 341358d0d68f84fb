package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/machinist-dev/machinist/drain"
)

// settles is the Message of a Result after the last known Pod has left, until another list confirms that there is none.
const settles = "* no Pods left; checking that none was bound right after the cordon"

// Step continues the drain of a Node and reports its state. It sends at most the cordon patch, queues evictions for [Runner.Start], and
// waits for neither. A Node that others uncordon is cordoned again, after growing pauses up to a minute when they do so repeatedly, which a
// blocker reports; meanwhile Pods leave. Step can be called at any rate, again after Done, and by another process after a crash.
//
// Step returns an error when the Pods or the budgets cannot be read, the cordon failed (for example because the Node does not exist or was
// replaced), or after the end of Start. Done is false then.
func (r *Runner) Step(ctx context.Context, req Request) (Result, error) {
	ns, err := r.enter(&req)
	if err != nil {
		return Result{}, err
	}
	if req.StartedAt.IsZero() {
		req.StartedAt = ns.startedAt
	}
	if err := r.cordon(ctx, ns, req.Node); err != nil {
		return Result{}, err
	}
	result, confirm, err := r.look(ctx, ns, &req)
	if confirm { // a watch may be behind undetected: the process was stopped, or the connection was silent
		r.cfg.Pods.Release(ns.name)
		result, _, err = r.look(ctx, ns, &req)
	}
	switch {
	case errors.Is(err, ErrNotListed):
		return Result{Message: "* " + err.Error(), RequeueAfter: probeInterval}, nil
	case err != nil:
		return result, fmt.Errorf("drain node %s: %w", ns.name, err)
	}
	return result, nil
}

// look reads the known Pods and their budgets, plans, queues and reports. Slow work is done without the lock: rules and selectors before
// it, texts after it.
func (r *Runner) look(ctx context.Context, ns *nodeState, req *Request) (result Result, confirm bool, err error) {
	pods, err := r.podsOf(ns)
	if err != nil {
		return Result{}, false, err
	}
	budgets, err := r.readBudgets(ctx, pods)
	if err != nil {
		return Result{}, false, err
	}
	now := r.cfg.Clock.Now()
	nodes := []drain.NodePods{{Node: ns.name, Pods: pods}}
	plan := drain.Planner{Rules: req.rules(now)}.Plan(nodes, drain.Facts{Budgets: budgets})
	plan, err = r.act(ns, plan, budgets, now)
	if err != nil {
		return Result{}, false, err
	}
	result = Result{
		Counts:       plan.Counts(),
		Blockers:     plan.Blockers(),
		Message:      plan.Summary(),
		RequeueAfter: probeInterval,
	}
	if at := req.StartedAt.Add(req.policy().DeleteAfter); at.After(now) {
		result.againAt(at, now)
	}
	return result, r.report(ns, &result, plan.Done(), now), nil
}

// podsOf returns the Pods of a Node from the source. A Node that was released meanwhile has no watch afterwards.
func (r *Runner) podsOf(ns *nodeState) ([]*corev1.Pod, error) {
	pods, synced, err := r.cfg.Pods.Pods(ns.name)
	if err == nil && !synced {
		err = notListedError("waiting for the list of Pods of the Node")
	}
	r.mu.Lock()
	released := r.nodes[ns.name] != ns
	r.mu.Unlock()
	if released {
		r.cfg.Pods.Release(ns.name)
	}
	return pods, err
}

// readBudgets lists the budgets of all Namespaces that have a Pod on the Node.
func (r *Runner) readBudgets(ctx context.Context, pods []*corev1.Pod) (budgets []*policyv1.PodDisruptionBudget, err error) {
	asked := map[string]bool{}
	for _, pod := range pods {
		if asked[pod.Namespace] || r.cfg.Budgets == nil {
			continue
		}
		asked[pod.Namespace] = true
		read, err := r.cfg.Budgets(ctx, pod.Namespace)
		if err != nil {
			return nil, fmt.Errorf("disruption budgets of namespace %s: %w", pod.Namespace, err)
		}
		budgets = append(budgets, read...)
	}
	return budgets, nil
}

// act plans again with the pending requests, and queues new ones: evictions queued by one Step count for the budgets of the next one.
func (r *Runner) act(ns *nodeState, plan drain.Plan, budgets []*policyv1.PodDisruptionBudget, now time.Time) (drain.Plan, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[ns.name] != ns {
		return plan, notListedError("the drain was cancelled")
	}
	spent := r.budgets.observe(budgets, now) // a Node that waits for a budget reads it once per interval
	held := ns.look(plan.Decisions, &r.paused, now)
	plan = plan.With(drain.Facts{Spent: spent, Held: held})
	clear(ns.waits)
	for i := range plan.Decisions {
		ns.carryOut(&plan.Decisions[i], r.budgets, now)
	}
	r.kickDispatcher()
	return plan, nil
}

// report completes a result with the history and the queue, and decides whether the drain has ended, or the Pods must be listed again to
// confirm that.
func (r *Runner) report(ns *nodeState, result *Result, done bool, now time.Time) (confirm bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ns.blockedSince(result, now)
	for _, a := range ns.attempts {
		if a.state == resting {
			result.againAt(a.retryAt, now)
		}
	}
	ns.listedAgain = ns.listedAgain && done
	if done {
		confirm = result.settle(ns, r.cfg.Settle, now)
	}
	ns.cordon.report(ns.name, result, now)
	return confirm
}

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
