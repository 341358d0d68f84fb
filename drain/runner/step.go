package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

const (
	namesPerLine = 3
)

// Messages of a Result until the Pods are listed, and from the last Pod that is known until another list has to confirm that there is none.
const (
	waitsForPods = "* waiting for the list of Pods of the Node"
	settles      = "* no Pods left; making sure that none was bound right after the cordon"
)

// Step continues the drain of a Node and reports its state. It sends at most the cordon patch, queues evictions for [Runner.Start], and
// waits for neither. A Node that others uncordon is cordoned again, after growing pauses up to a minute when they do so again and again;
// Pods leave meanwhile, and a blocker reports it. Step can be called at any rate, again after Done, and by another process after a crash.
//
// Step returns an error when the Pods or the budgets cannot be read, the cordon failed (for example because the Node does not exist or was
// replaced), the credentials are refused, or after the end of Start. Done is false then.
func (r *Runner) Step(ctx context.Context, req Request) (Result, error) {
	ns, err := r.enter(&req)
	if err != nil {
		return Result{}, err
	}
	if err := r.cordon(ctx, ns, req.Node); err != nil {
		return Result{}, err
	}
	result, confirm, err := r.look(ctx, ns, &req)
	if confirm { // a watch may be behind by any time without a sign: the process was stopped, or the connection carried nothing
		r.mu.Lock()
		ns.listedAgain = true
		r.mu.Unlock()
		r.cfg.Pods.Release(ns.name)
		result, _, err = r.look(ctx, ns, &req)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ns.cordon.report(ns.name, &result, r.cfg.Clock.Now())
	return result, err
}

// look reads what is known of the Pods and their budgets, and advances.
func (r *Runner) look(ctx context.Context, ns *nodeState, req *Request) (_ Result, confirm bool, _ error) {
	pods, synced, err := r.podsOf(ns)
	if err != nil {
		return Result{}, false, fmt.Errorf("drain node %s: %w", ns.name, err)
	}
	if !synced {
		return Result{Message: waitsForPods, RequeueAfter: probeInterval}, false, nil
	}
	budgets, missing, err := r.readBudgets(ctx, pods)
	if err != nil {
		return Result{}, false, fmt.Errorf("drain node %s: %w", ns.name, err)
	}
	if missing != "" {
		return Result{Message: missing, RequeueAfter: probeInterval}, false, nil
	}
	return r.advance(ns, req, pods, budgets)
}

// readBudgets lists the budgets of all Namespaces that have a Pod on the Node; missing says that they are not known.
func (r *Runner) readBudgets(ctx context.Context, pods []*corev1.Pod) (budgets []*policyv1.PodDisruptionBudget, missing string, err error) {
	var listed *list
	if r.lists != nil {
		if listed = r.lists.budgets(); listed.missing() != "" {
			return nil, listed.missing(), nil
		}
	}
	namespaces := map[string]bool{}
	for _, pod := range pods {
		if namespaces[pod.Namespace] {
			continue
		}
		namespaces[pod.Namespace] = true
		var read policyv1.PodDisruptionBudgetList
		switch {
		case listed != nil:
			budgets = append(budgets, under[policyv1.PodDisruptionBudget](listed, byNamespace, pod.Namespace)...)
		case r.cfg.Budgets != nil:
			if err := r.cfg.Budgets.List(ctx, &read, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy); err != nil {
				return nil, "", fmt.Errorf("disruption budgets of namespace %s: %w", pod.Namespace, err)
			}
			budgets = append(budgets, pointers(read.Items)...)
		}
	}
	return budgets, "", nil
}

// advance plans, queues and reports. Slow work is done without the lock: rules and selectors before it, texts after it.
func (r *Runner) advance(
	ns *nodeState, req *Request, pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget,
) (_ Result, confirm bool, _ error) {
	now := r.cfg.Clock.Now()
	nodes := []drain.NodePods{{Node: req.Node.Name, Pods: pods}}
	plan := drain.Planner{Rules: req.rules(now)}.Plan(nodes, drain.Facts{Now: now, Budgets: budgets})
	plan, respawnAt, known := r.act(ns, pods, plan, budgets, now)
	if !known {
		return Result{Message: "* the drain was cancelled", RequeueAfter: probeInterval}, false, nil
	}
	result := Result{
		Counts:       plan.Counts(),
		Blockers:     plan.Blockers(namesPerLine),
		Message:      plan.Summary(namesPerLine),
		RequeueAfter: probeInterval,
	}
	result.againAt(respawnAt, now)
	if at := req.StartedAt.Add(req.policy().DeleteAfter); at.After(now) {
		result.againAt(at, now)
	}
	confirm, refused := r.report(ns, &result, plan.Done(), now)
	if refused != nil && !plan.Done() {
		return result, false, fmt.Errorf("drain node %s: evictions are refused: %w", req.Node.Name, refused)
	}
	return result, confirm, nil
}

// act plans again with what is under way, and queues what may go: evictions queued by one Step count for the budgets of the next one.
// respawnAt is when the first Pod that was created again has rested. known is false if the Node was released.
func (r *Runner) act(
	ns *nodeState, pods []*corev1.Pod, plan drain.Plan, budgets []*policyv1.PodDisruptionBudget, now time.Time,
) (_ drain.Plan, respawnAt time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[ns.name] != ns {
		return plan, respawnAt, false
	}
	spent := r.budgets.observe(budgets, now)
	r.budgets.forget(now, 4*probeInterval) // a Node that waits for a budget reads it once per interval
	held := ns.refresh(pods, &r.paused, now)
	if !ns.cordon.since.IsZero() {
		ns.respawns.look(pods)
	}
	respawnAt = ns.respawns.hold(pods, held, now)
	plan = plan.With(drain.Facts{Now: now, Spent: spent, Held: held})
	ns.remember(plan, now)
	for i := range plan.Decisions {
		r.carryOutLocked(ns, &plan.Decisions[i])
	}
	r.probeLocked(ns, plan, now)
	r.kickDispatcher()
	return plan, respawnAt, true
}

// refresh drops attempts whose Pods are gone or terminating, ends those that are over, and returns what the others hold.
func (ns *nodeState) refresh(pods []*corev1.Pod, paused *pause, now time.Time) map[types.UID]drain.Hold {
	alive := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		alive[pod.UID] = pod
	}
	held := make(map[types.UID]drain.Hold, len(ns.attempts))
	for uid, a := range ns.attempts {
		pod := alive[uid]
		if pod == nil || pod.DeletionTimestamp != nil && a.state != inFlight {
			a.drop()
			continue
		}
		if a.ended(now) {
			if a.state == accepted {
				a.releaseToken()
			}
			a.state = idle
		}
		if hold, holds := a.hold(paused, now); holds {
			held[uid] = hold
		}
	}
	return held
}

// remember keeps which Pods have to go, and when one was last seen that the Step before did not show.
func (ns *nodeState) remember(plan drain.Plan, now time.Time) {
	before := ns.pods
	ns.pods = make(map[types.UID]bool, len(plan.Decisions))
	for i := range plan.Decisions {
		if d := &plan.Decisions[i]; d.Action != drain.Ignore {
			ns.pods[d.Pod.UID] = true
			if before != nil && !before[d.Pod.UID] {
				ns.boundAt = now
			}
		}
	}
}

func (r *Runner) carryOutLocked(ns *nodeState, d *drain.Decision) {
	if d.Action == drain.Evict || d.Action == drain.Delete {
		ns.enqueue(d, r.budgets, d.TakesToken)
		return
	}
	// A queued Pod waits for its turn, unless something else holds it: an order, another rule.
	a := ns.attempts[d.Pod.UID]
	if a != nil && a.state == queued && d.Reason != drain.ReasonEvictionRequested && d.Reason != r.paused.hold.Reason &&
		d.Reason != a.rest.Reason {
		a.withdraw()
	}
}

// probeLocked requests Pods although the plan holds them: each hopeless Pod that does not rest, and after a while one Pod per closed
// budget, so that an outdated cache cannot stop a drain forever.
func (r *Runner) probeLocked(ns *nodeState, plan drain.Plan, now time.Time) {
	clear(ns.waits)
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if d.Action != drain.Wait && d.Action != drain.Deny {
			continue
		}
		for _, name := range d.Budgets {
			ns.waits[name] = true
		}
		closed := (d.Reason == drain.ReasonBudgetExhausted || d.Reason == drain.ReasonBudgetStale) && len(d.Budgets) == 1
		switch a := ns.attempts[d.Pod.UID]; {
		case a != nil && (a.state != idle || hopeless(d) && now.Before(a.retryAt)): // it has a time of its own
		case hopeless(d):
			ns.enqueue(d, r.budgets, len(d.Budgets) == 1)
		case closed && r.budgets[d.Budgets[0]].probe(now):
			ns.enqueue(d, r.budgets, true)
		}
	}
}
