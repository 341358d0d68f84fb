package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

const (
	namesPerLine = 3
	// soon is when to look again while a cache fills that cannot wake anybody.
	soon = 100 * time.Millisecond
)

// WaitsForBudgets is the Message of a Result while Config.Informers has yet to list PodDisruptionBudgets.
const WaitsForBudgets = "* waiting for the list of PodDisruptionBudgets"

// Step moves the drain of a Node on and says where it stands. It sends at most the cordon patch, queues evictions for
// [Runner.Start] to carry out, and never waits for either of them. It can be called at any rate, again after Done, and
// by another process after a crash. Where the policy says so, a Step sends the out-of-service taint instead of the cordon,
// which was observed by then.
//
// Errors: the pods or the budgets cannot be read, the cordon failed (among others [ErrNodeReplaced], and NotFound when
// the Node is gone), the credentials were refused, or [ErrStopped]. Done is false then.
func (r *Runner) Step(ctx context.Context, req Request) (Result, error) {
	if err := r.enter(&req); err != nil {
		return Result{}, err
	}
	if req.InstanceGone {
		return Result{Done: true}, nil
	}
	node := req.Node
	cordonedSince, err := r.cordon(ctx, node)
	if err != nil {
		return Result{}, err
	}
	if err := r.taint(ctx, &req); err != nil {
		return Result{}, err
	}
	pods, synced, err := r.podsOf(node.Name, node.UID)
	if errors.Is(err, errReleased) {
		return cancelled(), nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("drain node %s: %w", node.Name, err)
	}
	if !synced {
		return Result{Message: "* waiting for the list of Pods of the Node", RequeueAfter: r.cfg.ProbeInterval}, nil
	}
	budgets, synced, err := r.readBudgets(ctx, pods)
	if err != nil {
		return Result{}, fmt.Errorf("drain node %s: %w", node.Name, err)
	}
	if !synced {
		return Result{Message: WaitsForBudgets, RequeueAfter: soon}, nil
	}
	r.takeTurns(&req, pods)
	result, err := r.advance(req, pods, budgets, cordonedSince)
	r.observe(node, &result)
	return result, err
}

// enter registers the Node, or starts anew when its UID has changed.
func (r *Runner) enter(req *Request) error {
	if req.Node == nil || req.Node.Name == "" || req.Node.UID == "" {
		return fmt.Errorf("drain node: %w: the Node is nil or has no name or no uid; pass it as read from the API server",
			errInvalidRequest)
	}
	if err := req.policy().Validate(); err != nil {
		return fmt.Errorf("drain node %s: %w: %w", req.Node.Name, errInvalidRequest, err)
	}
	if req.policy().SerialVolumes != nil && r.cfg.Volumes == nil {
		return fmt.Errorf("drain node %s: %w: Config.Volumes is required for drain.Policy.SerialVolumes", req.Node.Name, errInvalidRequest)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stopped:
		return fmt.Errorf("drain node %s: %w", req.Node.Name, ErrStopped)
	default:
	}
	ns := r.nodes[req.Node.Name]
	if ns != nil && ns.uid != req.Node.UID {
		r.forgetLocked(req.Node.Name)
		ns = nil
	}
	if ns == nil {
		ns = &nodeState{
			uid: req.Node.UID, attempts: map[types.UID]*attempt{}, startedAt: r.cfg.Clock.Now(),
			waits: map[types.NamespacedName]bool{}, since: map[string]time.Time{},
		}
		r.nodes[req.Node.Name] = ns
		r.ring = append(r.ring, req.Node.Name)
	}
	ns.owner = req.Owner
	if req.StartedAt.IsZero() {
		req.StartedAt = ns.startedAt
	}
	return nil
}

// readBudgets lists the budgets of all namespaces that have a pod on the Node.
func (r *Runner) readBudgets(ctx context.Context, pods []*corev1.Pod) ([]*policyv1.PodDisruptionBudget, bool, error) {
	if r.cfg.Budgets == nil {
		return nil, true, nil
	}
	if r.cfg.Informers != nil {
		r.mu.Lock()
		hasSynced, err := r.budgetsSynced, r.budgetsErr
		r.mu.Unlock()
		if err != nil {
			return nil, false, err
		}
		if hasSynced == nil || !hasSynced() {
			return nil, false, nil
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
		if err != nil {
			return nil, false, fmt.Errorf("disruption budgets of namespace %s: %w", pod.Namespace, err)
		}
		for i := range list.Items {
			budgets = append(budgets, &list.Items[i])
		}
	}
	return budgets, true, nil
}

// advance plans, queues and reports. What costs time is done without the lock: what rules and selectors say comes before it, and what
// people read after it.
func (r *Runner) advance(
	req Request, pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget, cordonedSince time.Time,
) (Result, error) {
	situation := r.situation(&req)
	now := situation.Now
	draft := r.cfg.Planner.Draft(
		[]drain.NodePods{{Node: req.Node.Name, Pods: pods, Rules: r.rules(&req, situation)}}, budgets, r.selectors(req.Node.Name))
	plan, respawnAt, known := r.act(&req, pods, draft, situation, !cordonedSince.IsZero())
	if !known {
		return cancelled(), nil
	}
	result := Result{
		Counts:       plan.Counts(),
		Blockers:     plan.Blockers(namesPerLine),
		Message:      plan.Summary(namesPerLine),
		RequeueAfter: r.cfg.ProbeInterval,
	}
	refused := r.remember(req.Node, &result, now)
	sooner(&result, respawnAt, now)
	sooner(&result, req.policy().Next(pods, situation), now)
	switch {
	case plan.Done():
		r.settle(&result, cordonedSince, now)
	case req.policy().Abandoned(situation):
		result.Abandoned, result.RequeueAfter = true, 0
	}
	if refused != nil && !plan.Done() {
		return result, fmt.Errorf("drain node %s: evictions are refused: %w", req.Node.Name, refused)
	}
	return result, nil
}

// act makes a plan of a draft and queues what may go: evictions queued by one Step count for the next one's budgets. known is false when
// the Node was released. respawnAt is when the first pod that was created again has rested.
func (r *Runner) act(
	req *Request, pods []*corev1.Pod, draft drain.Draft, s drain.Situation, cordoned bool,
) (plan drain.Plan, respawnAt time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ns := r.nodes[req.Node.Name]
	if ns == nil || ns.uid != req.Node.UID {
		return plan, respawnAt, false
	}
	ns.selectors = draft.Selectors()
	spent := r.observeLocked(draft.Budgets(), s.Now)
	r.sweepLocked(s.Now)
	r.refreshLocked(ns, pods, s.Now)
	if cordoned {
		ns.respawns.look(pods)
	}
	held := r.heldLocked(ns, s.Now)
	respawnAt = ns.respawns.hold(pods, held, s.Now)
	plan = draft.Plan(drain.Facts{Now: s.Now, Spent: spent, Held: held, Turns: ns.turnsOf(req.Node.Name)})
	for i := range plan.Decisions {
		r.overcomeLocked(&plan.Decisions[i], req, s)
		r.carryOutLocked(ns, &plan.Decisions[i])
	}
	r.probeLocked(ns, plan, s.Now)
	ns.keepRefused(plan)
	r.kickDispatcher()
	return plan, respawnAt, true
}

// selectors returns those that the last plan of a Node has parsed.
func (r *Runner) selectors(node string) drain.Selectors {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ns := r.nodes[node]; ns != nil {
		return ns.selectors
	}
	return drain.Selectors{}
}

// sweepLocked bounds what is remembered of budgets while some Node is always drained.
func (r *Runner) sweepLocked(now time.Time) {
	if now.Sub(r.sweptAt) < r.cfg.ProbeInterval {
		return
	}
	r.sweptAt = now
	after := 4 * r.cfg.ProbeInterval // who waits for a budget looks at it once per interval
	maps.DeleteFunc(r.budgets, func(_ types.NamespacedName, b *budgetState) bool { return b.forgotten(now, after) })
}

func cancelled() Result { return Result{Message: "* the drain was cancelled", RequeueAfter: soon} }

func (r *Runner) carryOutLocked(ns *nodeState, d *drain.Decision) {
	switch d.Action {
	case drain.Evict:
		r.enqueueLocked(ns, d, d.TakesToken)
	case drain.Delete:
		if r.cfg.Deleter != nil {
			r.enqueueLocked(ns, d, false)
			return
		}
		if d.Pod.DeletionTimestamp != nil { // its grace period cannot be shortened
			d.Action = drain.Wait
			return
		}
		d.Verdict = drain.Verdict{
			Action: drain.Deny, Order: d.Order, Reason: drain.ReasonUnsupported,
			Message: "the Pod is to be deleted, and the drain runner has no Deleter",
		}
	case drain.Wait, drain.Ignore, drain.Deny, drain.Undecided:
		// A queued pod waits for its turn, unless something else holds it by now: a stage, an order, another rule.
		a := r.attempts[d.Pod.UID]
		if a != nil && a.state == queued && d.Reason != drain.ReasonEvictionRequested && d.Reason != r.paused.hold.Reason &&
			d.Reason != a.against.Reason {
			r.withdrawLocked(ns, a)
		}
	}
}

// keepRefused lets pods that an error has kept back look so while they are asked for again, so that neither their message nor since when
// changes with every try.
func (ns *nodeState) keepRefused(plan drain.Plan) {
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if a := ns.attempts[d.Pod.UID]; a != nil && a.askedAgain() && (d.Action == drain.Evict || d.Reason == drain.ReasonEvictionRequested) {
			d.Action, d.Reason, d.Message = drain.Wait, a.hold.Reason, a.hold.Message
		}
	}
}

// remember adds to a report what is known of the past and of the queue. The error says that credentials are refused.
func (r *Runner) remember(node *corev1.Node, result *Result, now time.Time) (refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.paused.until) {
		refused = r.paused.refused
	}
	ns := r.nodes[node.Name]
	if ns == nil || ns.uid != node.UID { // released meanwhile
		return refused
	}
	keys := make([]string, 0, len(result.Blockers))
	for i := range result.Blockers {
		key := result.Blockers[i].Key()
		keys = append(keys, key)
		if ns.since[key].IsZero() {
			ns.since[key] = now
		}
		result.Blockers[i].Since = ns.since[key]
	}
	for key := range ns.since {
		if !slices.Contains(keys, key) {
			delete(ns.since, key)
		}
	}
	ns.reportTurns(result, now)
	for _, a := range ns.attempts {
		if a.state == resting {
			result.RequeueAfter = min(result.RequeueAfter, max(a.retryAt.Sub(now), time.Millisecond))
		}
	}
	return refused
}

// settle decides whether a Node without blocking pods is drained.
func (r *Runner) settle(result *Result, cordonedSince, now time.Time) {
	switch left := r.cfg.Settle - now.Sub(cordonedSince); {
	case cordonedSince.IsZero():
		result.Message = "* waiting to see the Node cordoned"
	case left > 0:
		result.Message = "* no Pods left; making sure that none was bound right after the cordon"
		result.RequeueAfter = left
	default:
		result.Done, result.Message, result.RequeueAfter = true, "", 0
	}
}
