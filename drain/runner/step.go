package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/internal/patch"
)

const (
	namesPerLine = 3
	// soon is when to look again while a cache fills that cannot wake the owner.
	soon = 100 * time.Millisecond
)

const (
	// waitsForBudgets is the Message of a Result until Config.Informers has listed PodDisruptionBudgets.
	waitsForBudgets = "* waiting for the list of PodDisruptionBudgets"
	waitsForPods    = "* waiting for the list of Pods of the Node"
	// settles is the Message of a Result from the last Pod that is known until the list that confirms that there is none.
	settles = "* no Pods left; making sure that none was bound right after the cordon"
)

// Step continues the drain of a Node and reports its state. It sends at most the cordon patch, queues evictions for [Runner.Start], and
// waits for neither. A Node that others uncordon is cordoned again after growing pauses, up to a minute; Pods leave meanwhile, and the
// message reports it. It can be called at any rate, again after Done, and by another process after a crash.
//
// Step returns an error when the Pods or the budgets cannot be read, the cordon failed (for example because the Node does not exist or was
// replaced), the credentials are refused, or after the end of Start. Done is false then.
func (r *Runner) Step(ctx context.Context, req Request) (Result, error) {
	ns, err := r.enter(&req)
	if err != nil {
		return Result{}, err
	}
	cordonedSince, err := r.cordon(ctx, ns, req.Node)
	undone := (*patch.UndoneError)(nil)
	if err != nil && !errors.As(err, &undone) {
		return Result{}, err
	}
	result, confirm, err := r.look(ctx, ns, &req, cordonedSince)
	if confirm {
		r.listAgain(ns)
		result, _, err = r.look(ctx, ns, &req, cordonedSince)
	}
	if undone != nil {
		result.contested(undone)
	}
	return result, err
}

// look reads what is known of the Node, and advances.
func (r *Runner) look(ctx context.Context, ns *nodeState, req *Request, cordonedSince time.Time) (_ Result, confirm bool, _ error) {
	pods, synced, err := r.podsOf(ns)
	if errors.Is(err, errReleased) {
		return cancelled(), false, nil
	}
	if err != nil {
		return Result{}, false, fmt.Errorf("drain node %s: %w", ns.name, err)
	}
	if !synced {
		return Result{Message: r.whyUnlisted(ns), RequeueAfter: probeInterval}, false, nil
	}
	budgets, synced, err := r.readBudgets(ctx, pods)
	if err != nil {
		return Result{}, false, fmt.Errorf("drain node %s: %w", ns.name, err)
	}
	if !synced {
		return Result{Message: waitsForBudgets + r.budgetList.why(), RequeueAfter: soon}, false, nil
	}
	return r.advance(ns, req, pods, budgets, cordonedSince)
}

func cancelled() Result { return Result{Message: "* the drain was cancelled", RequeueAfter: soon} }

// enter returns what is remembered about the Node, or begins a new drain when its UID has changed.
func (r *Runner) enter(req *Request) (*nodeState, error) {
	if req.Node == nil || req.Node.Name == "" || req.Node.UID == "" {
		return nil, fmt.Errorf("drain node: %w: the Node is nil or has no name or no uid; pass it as read from the API server",
			errInvalidRequest)
	}
	policy := req.policy()
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("drain node %s: %w: %w", req.Node.Name, errInvalidRequest, err)
	}
	r.list()
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stopped:
		return nil, fmt.Errorf("drain node %s: %w", req.Node.Name, errStopped)
	default:
	}
	ns := r.nodes[req.Node.Name]
	if ns == nil || ns.uid != req.Node.UID {
		r.forgetLocked(req.Node.Name)
		ns = &nodeState{
			name: req.Node.Name, uid: req.Node.UID, attempts: map[types.UID]*attempt{}, startedAt: r.cfg.Clock.Now(),
			waits: map[types.NamespacedName]bool{},
		}
		r.nodes[ns.name] = ns
		r.ring = append(r.ring, ns)
	}
	ns.owner = req.Owner
	if req.StartedAt.IsZero() {
		req.StartedAt = ns.startedAt
	}
	return ns, nil
}

// list starts the lists that are made on demand, so that volumes are known when the Pods have left.
func (r *Runner) list() {
	if r.budgetList != nil {
		_, _ = r.budgetList.ask()
	}
	if r.volumes != nil {
		r.volumes.demand()
	}
}

// readBudgets lists the budgets of all Namespaces that have a Pod on the Node.
func (r *Runner) readBudgets(ctx context.Context, pods []*corev1.Pod) ([]*policyv1.PodDisruptionBudget, bool, error) {
	if r.cfg.Budgets == nil {
		return nil, true, nil
	}
	if r.budgetList != nil {
		if known, err := r.budgetList.ask(); err != nil || !known {
			return nil, false, err
		}
	}
	namespaces := map[string]bool{}
	var budgets []*policyv1.PodDisruptionBudget
	for _, pod := range pods {
		if namespaces[pod.Namespace] {
			continue
		}
		namespaces[pod.Namespace] = true
		var list policyv1.PodDisruptionBudgetList
		err := r.cfg.Budgets.List(ctx, &list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy)
		if meta.IsNoMatchError(err) && r.budgetList != nil && r.budgetList.emptyIfUnserved {
			return nil, true, nil // the API server does not serve budgets, so there are none
		}
		if err != nil {
			return nil, false, fmt.Errorf("disruption budgets of namespace %s: %w", pod.Namespace, err)
		}
		for i := range list.Items {
			budgets = append(budgets, &list.Items[i])
		}
	}
	return budgets, true, nil
}

// advance plans, queues and reports. Slow work is done without the lock: rules and selectors before it, texts after it.
func (r *Runner) advance(
	ns *nodeState, req *Request, pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget, cordonedSince time.Time,
) (_ Result, confirm bool, _ error) {
	situation := r.situation(req)
	now := situation.Now
	plan := drain.Planner{}.Plan([]drain.NodePods{{Node: req.Node.Name, Pods: pods, Rules: rules(req, situation)}},
		drain.Facts{Now: now, Budgets: budgets})
	plan, respawnAt, known := r.act(ns, pods, plan, budgetsOf(plan, budgets), now, !cordonedSince.IsZero())
	if !known {
		return cancelled(), false, nil
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
	done := plan.Done()
	refused := r.report(ns, &result, now, func() {
		if done {
			confirm = result.settle(ns.listedAgain, r.cfg.Settle, cordonedSince, now)
		} else {
			ns.listedAgain = false
		}
	})
	if refused != nil && !done {
		return result, false, fmt.Errorf("drain node %s: evictions are refused: %w", req.Node.Name, refused)
	}
	return result, confirm, nil
}

func (r *Runner) situation(req *Request) drain.Situation {
	return drain.Situation{
		Now: r.cfg.Clock.Now(), StartedAt: req.StartedAt,
		Node: req.Node, PoweredOff: req.PoweredOff, EvictsOnly: r.cfg.Deleter == nil,
	}
}

// rules are those of the request, with the policy as the last rule.
func rules(req *Request, s drain.Situation) []drain.Rule {
	rules := req.Rules
	if rules == nil {
		rules = drain.DefaultRules()
	}
	return append(slices.Clip(rules), req.policy().Rule(s))
}

// How long a Pod rests that its budgets never let go: one minute, doubled with every refusal in a row.
const (
	minProbeRest = time.Minute
	maxProbeRest = 5 * time.Minute
)

// budgetsOf returns those of some budgets that select Pods which may go now.
func budgetsOf(plan drain.Plan, all []*policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
	names := map[types.NamespacedName]bool{}
	for i := range plan.Decisions {
		for _, name := range plan.Decisions[i].Budgets {
			names[name] = true
		}
	}
	var some []*policyv1.PodDisruptionBudget
	for _, pdb := range all {
		if names[client.ObjectKeyFromObject(pdb)] {
			some = append(some, pdb)
		}
	}
	return some
}

// act plans again with what is under way, and queues what may go: evictions queued by one Step count for the budgets of the next one. known
// is false if the Node was released. respawnAt is when the first Pod that was created again has rested.
func (r *Runner) act(
	ns *nodeState, pods []*corev1.Pod, plan drain.Plan, budgets []*policyv1.PodDisruptionBudget, now time.Time, cordoned bool,
) (_ drain.Plan, respawnAt time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ns.released {
		return plan, respawnAt, false
	}
	spent := r.budgets.observe(budgets, maxInFlightPerBudget, now)
	if now.Sub(r.sweptAt) >= probeInterval {
		r.sweptAt = now
		r.budgets.forget(now, 4*probeInterval) // a Node that waits for a budget reads it once per interval
	}
	ns.refresh(pods, now)
	if cordoned {
		ns.respawns.look(pods)
	}
	held := ns.held(&r.paused, now)
	respawnAt = ns.respawns.hold(pods, held, now)
	plan = plan.With(drain.Facts{Now: now, Spent: spent, Held: held})
	for i := range plan.Decisions {
		r.carryOutLocked(ns, &plan.Decisions[i])
	}
	r.probeLocked(ns, plan, now)
	ns.keepRefused(plan)
	r.kickDispatcher()
	return plan, respawnAt, true
}

func (r *Runner) carryOutLocked(ns *nodeState, d *drain.Decision) {
	switch {
	case d.Action == drain.Evict, d.Action == drain.Delete && r.cfg.Deleter != nil:
		ns.enqueue(d, r.budgets, d.TakesToken)
	case d.Action == drain.Delete && d.Pod.DeletionTimestamp != nil: // its grace period cannot be shortened
		d.Action = drain.Wait
	case d.Action == drain.Delete:
		d.Verdict = drain.Verdict{
			Action: drain.Deny, Order: d.Order, Reason: drain.ReasonUnsupported,
			Message: "the Pod is to be deleted, and the drain runner has no Deleter",
		}
	default:
		// A queued Pod waits for its turn, unless something else holds it: an order, another rule.
		a := ns.attempts[d.Pod.UID]
		if a != nil && a.state == queued && d.Reason != drain.ReasonEvictionRequested && d.Reason != r.paused.hold.Reason &&
			d.Reason != a.against.Reason {
			a.withdraw()
		}
	}
}

// keepRefused reports Pods that failed by an error as before while they are requested again, so that neither their message nor their Since
// changes with every attempt.
func (ns *nodeState) keepRefused(plan drain.Plan) {
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if a := ns.attempts[d.Pod.UID]; a != nil && a.retried() && (d.Action == drain.Evict || d.Reason == drain.ReasonEvictionRequested) {
			d.Action, d.Reason, d.Message = drain.Wait, a.hold.Reason, a.hold.Message
		}
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
		switch {
		case !ns.mayProbe(d):
		case hopeless(d):
			ns.enqueueAgainst(d, r.budgets)
		case r.budgets[d.Budgets[0]].probe(now, probeInterval):
			ns.enqueue(d, r.budgets, true)
		}
	}
}

// mayProbe reports whether only budgets hold a Pod: a budget that may have opened, or budgets that never open. A Pod that rests has its own
// time.
func (ns *nodeState) mayProbe(d *drain.Decision) bool {
	closed := (d.Reason == drain.ReasonBudgetExhausted || d.Reason == drain.ReasonBudgetStale) && len(d.Budgets) == 1
	a := ns.attempts[d.Pod.UID]
	return (closed || hopeless(d)) && (a == nil || a.state == idle)
}

// enqueueAgainst queues a request for a hopeless Pod. Until the answer, the Pod is reported as before, so that a probe changes no status.
func (ns *nodeState) enqueueAgainst(d *drain.Decision, known budgets) {
	reported := drain.Hold{Reason: d.Reason, Message: d.Message}
	if a := ns.attempts[d.Pod.UID]; a != nil && a.against.Reason != "" && a.hold.Reason != "" {
		reported = a.hold
	}
	ns.enqueue(d, known, len(d.Budgets) == 1).against = reported
	d.Action, d.Reason, d.Message = drain.Wait, reported.Reason, reported.Message
}
