package runner

import (
	"slices"
	"time"

	"github.com/machinist-dev/machinist/drain"
)

func (req *Request) policy() drain.Policy {
	if req.Policy == nil {
		return drain.Policy{}
	}
	return *req.Policy
}

func (r *Runner) situation(req *Request) drain.Situation {
	return drain.Situation{
		Now: r.cfg.Clock.Now(), StartedAt: req.StartedAt, Deadline: req.Deadline,
		Node: req.Node, PoweredOff: req.PoweredOff, InstanceGone: req.InstanceGone, EvictsOnly: r.cfg.Deleter == nil,
	}
}

// rules are those of the request with the policy as the last word.
func (r *Runner) rules(req *Request, s drain.Situation) []drain.Rule {
	rules := req.Rules
	if rules == nil {
		rules = r.cfg.Planner.Rules
	}
	if rules == nil {
		rules = drain.DefaultRules()
	}
	return append(slices.Clip(rules), req.policy().Rule(s))
}

// overcomeLocked turns an eviction that can never be accepted into a deletion, where the policy allows it: the plan or the
// server has found two budgets over the pod, or its namespace is terminating and the pod has rested for it.
func (r *Runner) overcomeLocked(d *drain.Decision, req *Request, s drain.Situation) {
	refusal := d.Reason
	if d.Action == drain.Evict {
		a := r.attempts[d.Pod.UID]
		if a == nil || a.state != idle || a.action != drain.Evict {
			return
		}
		refusal = a.hold.Reason
	}
	again := d.Action == drain.Evict
	hopeless := refusal == drain.ReasonMultipleBudgets && (d.Action == drain.Deny || d.Action == drain.Wait)
	if (again || hopeless) && req.policy().DeletesAfter(refusal, s) {
		d.Action, d.Reason, d.Message = drain.Delete, drain.ReasonEscalated, "deleting the Pod because it cannot be evicted"
		d.TakesToken = false
	}
}

// sooner brings the next look forward to a moment that is known already; zero is none.
func sooner(result *Result, at, now time.Time) {
	if !at.IsZero() {
		result.RequeueAfter = min(result.RequeueAfter, max(at.Sub(now), time.Millisecond))
	}
}
