package runner

import (
	"time"

	"github.com/machinist-dev/machinist/drain"
)

// How long a pod rests that its budgets can never let go: one minute at first, doubled with every refusal in a row.
const (
	minProbeRest = time.Minute
	maxProbeRest = 5 * time.Minute
)

// hopeless says that rules want a pod evicted, and that its budgets deny it for good, as far as the plan can know. It is asked
// for all the same, because the server has the last word and webhooks act on the request: KubeVirt migrates the virtual
// machine, which has a budget of its own, and Strimzi's drain cleaner lets Kafka's operator roll the pod.
func hopeless(d *drain.Decision) bool {
	return d.Intended == drain.Evict && d.Action == drain.Deny &&
		(d.Reason == drain.ReasonBudgetNeverAllows || d.Reason == drain.ReasonMultipleBudgets)
}

// probeLocked asks for pods although the plan holds them: each hopeless pod as soon as it does not rest, and one pod per closed
// budget after a while, so that a stale cache cannot stall a drain for good.
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
		if !r.worthAProbe(d) || (ns.turns.Concerns(d.Pod) && ns.turns.Full(plan)) {
			continue
		}
		if hopeless(d) {
			r.askAgainstLocked(ns, d)
			continue
		}
		b := r.budgetLocked(d.Budgets[0])
		switch {
		case b.probeAt.IsZero() || now.Sub(b.probeAt) > 4*r.cfg.ProbeInterval: // closed only now, or anew
			b.probeAt = now.Add(r.cfg.ProbeInterval)
		case !now.Before(b.probeAt) && !now.Before(b.restUntil) && !b.asked():
			b.probeAt = now.Add(r.cfg.ProbeInterval)
			r.enqueueLocked(ns, d, true)
		}
	}
}

// worthAProbe says whether budgets are all that holds a pod: one that may have opened unseen, or such as never open. A pod that
// rests has a time of its own.
func (r *Runner) worthAProbe(d *drain.Decision) bool {
	closed := (d.Reason == drain.ReasonBudgetExhausted || d.Reason == drain.ReasonBudgetStale) && len(d.Budgets) == 1
	a := r.attempts[d.Pod.UID]
	return (closed || hopeless(d)) && (a == nil || a.state == idle)
}

// askAgainstLocked queues a request for a hopeless pod. Until the answer comes, the pod is reported as before, so that a probe
// changes no status; only a pod that has to keep its turn counts as asked.
func (r *Runner) askAgainstLocked(ns *nodeState, d *drain.Decision) {
	said := drain.Hold{Reason: d.Reason, Message: d.Message}
	if a := r.attempts[d.Pod.UID]; a != nil && a.against.Reason != "" && a.hold.Reason != "" {
		said = a.hold
	}
	if ns.turns.Concerns(d.Pod) {
		said = drain.Hold{Reason: drain.ReasonEvictionRequested}
	}
	r.enqueueLocked(ns, d, len(d.Budgets) == 1)
	r.attempts[d.Pod.UID].against = said
	d.Action, d.Reason, d.Message = drain.Wait, said.Reason, said.Message
}
