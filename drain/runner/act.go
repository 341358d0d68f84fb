package runner

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
)

// How long a Pod rests that its budgets never let go: one minute, doubled with every refusal in a row.
const (
	minProbeRest = time.Minute
	maxProbeRest = 5 * time.Minute
)

// act makes a plan of a draft and queues what may go: evictions queued by one Step count for the budgets of the next one. known is false if
// the Node was released. respawnAt is when the first Pod that was created again has rested.
func (r *Runner) act(
	ns *nodeState, req *Request, pods []*corev1.Pod, draft drain.Draft, s drain.Situation, cordoned bool,
) (plan drain.Plan, respawnAt time.Time, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ns.released {
		return plan, respawnAt, false
	}
	ns.selectors = draft.Selectors()
	spent := r.budgets.observe(draft.Budgets(), r.cfg.MaxInFlightPerBudget, s.Now)
	if s.Now.Sub(r.sweptAt) >= r.cfg.ProbeInterval {
		r.sweptAt = s.Now
		r.budgets.forget(s.Now, 4*r.cfg.ProbeInterval) // a Node that waits for a budget reads it once per interval
	}
	ns.refresh(pods, s.Now)
	if cordoned {
		ns.respawns.look(pods)
	}
	held := ns.held(&r.paused, s.Now)
	respawnAt = ns.respawns.hold(pods, held, s.Now)
	facts := drain.Facts{Now: s.Now, Spent: spent, Held: held}
	if ns.turns != nil {
		facts.Turns = map[string]*drain.VolumeTurns{ns.name: ns.turns}
	}
	plan = draft.Plan(facts)
	policy := req.policy()
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		ns.overcome(d, policy, s)
		r.carryOutLocked(ns, d)
	}
	r.probeLocked(ns, plan, s.Now)
	ns.keepRefused(plan)
	r.kickDispatcher()
	return plan, respawnAt, true
}

// overcome turns an eviction that can never be accepted into a deletion, if the policy allows it: the plan or the API server found two
// budgets for the Pod, or its Namespace is terminating and the Pod has rested for it.
func (ns *nodeState) overcome(d *drain.Decision, policy drain.Policy, s drain.Situation) {
	refusal := d.Reason
	if d.Action == drain.Evict {
		a := ns.attempts[d.Pod.UID]
		if a == nil || a.state != idle || a.action != drain.Evict {
			return
		}
		refusal = a.hold.Reason
	} else if refusal != drain.ReasonMultipleBudgets || d.Action != drain.Deny && d.Action != drain.Wait {
		return
	}
	if policy.DeletesAfter(refusal, s) {
		d.Action, d.Reason, d.Message = drain.Delete, drain.ReasonEscalated, "deleting the Pod because it cannot be evicted"
		d.TakesToken = false
	}
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
		// A queued Pod waits for its turn, unless something else holds it: a stage, an order, another rule.
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

// hopeless reports that the rules let a Pod be evicted and that, as far as the plan can know, its budgets never do. The Pod is requested
// nevertheless, because the API server decides and webhooks act on the request: KubeVirt migrates the virtual machine, which has a budget
// of its own, and Strimzi's drain cleaner lets the operator of Kafka restart the Pod.
func hopeless(d *drain.Decision) bool {
	return d.Intended == drain.Evict && d.Action == drain.Deny &&
		(d.Reason == drain.ReasonBudgetNeverAllows || d.Reason == drain.ReasonMultipleBudgets)
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
		case !ns.mayProbe(d) || ns.turns.Concerns(d.Pod) && ns.turns.Full(plan):
		case hopeless(d):
			ns.enqueueAgainst(d, r.budgets)
		case r.budgets[d.Budgets[0]].probe(now, r.cfg.ProbeInterval):
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
// Only a Pod that takes a turn is reported as requested.
func (ns *nodeState) enqueueAgainst(d *drain.Decision, known budgets) {
	reported := drain.Hold{Reason: d.Reason, Message: d.Message}
	if a := ns.attempts[d.Pod.UID]; a != nil && a.against.Reason != "" && a.hold.Reason != "" {
		reported = a.hold
	}
	if ns.turns.Concerns(d.Pod) {
		reported = drain.Hold{Reason: drain.ReasonEvictionRequested}
	}
	ns.enqueue(d, known, len(d.Budgets) == 1).against = reported
	d.Action, d.Reason, d.Message = drain.Wait, reported.Reason, reported.Message
}
