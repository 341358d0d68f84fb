package runner

import (
	"time"

	"github.com/machinist-dev/machinist/drain"
)

// How long a Pod rests that its budgets never let go: one minute, doubled with every refusal in a row.
const (
	minProbeRest = time.Minute
	maxProbeRest = 5 * time.Minute
)

// hopeless reports that the rules let a Pod be evicted and that, as far as the plan can know, its budgets never do. The Pod is requested
// nevertheless, because the API server decides and webhooks act on the request: KubeVirt migrates the virtual machine, which has a budget of
// its own, and Strimzi's drain cleaner lets the operator of Kafka restart the Pod.
func hopeless(d *drain.Decision) bool {
	return d.Intended == drain.Evict && d.Action == drain.Deny &&
		(d.Reason == drain.ReasonBudgetNeverAllows || d.Reason == drain.ReasonMultipleBudgets)
}

// probeLocked requests Pods although the plan holds them: each hopeless Pod that does not rest, and after a while one Pod per closed budget,
// so that an outdated cache cannot stop a drain forever.
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
