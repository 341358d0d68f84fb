package runner

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/machinist-dev/machinist/drain"
)

// acceptedFor is how long an accepted eviction is trusted while the Pod is not terminating. Then it is requested again.
const acceptedFor = 30 * time.Second

type attemptState uint8

const (
	idle     attemptState = iota // only the number of failures is retained
	queued                       // waits for its turn
	inFlight                     // the request was sent
	accepted                     // the API server accepted it; the Pod is not terminating yet
	resting                      // refused; may be requested again at retryAt
)

// attempt is the state of the eviction or deletion of one Pod. It ends with the Pod or the drain of the Node. The lock of the Runner guards
// it; ref, action and grace do not change while the request is in flight.
type attempt struct {
	ref        PodRef
	ns         *nodeState
	controller types.UID
	late       bool         // the Pod was not there in the first Step that saw the cordon
	goes       bool         // in the last Step, the Pod was there and had to leave
	action     drain.Action // Evict or Delete
	grace      *int64
	state      attemptState
	// rest is reported while resting, and after that until the next response. If it is empty, the decision of the plan is reported while
	// resting, and ReasonEvictionRequested after that.
	rest     drain.Hold
	retryAt  time.Time // while resting or accepted
	failures int
	hopeless bool         // the plan denies the request
	budget   *budgetState // the only budget that selects the Pod, or the first of a hopeless Pod; nil if there is none
	token    bool         // counts against the budget until its status shows the eviction
	seenRV   string       // version of the budget when the eviction was accepted, or refused because of the budget
}

// respawning is the state of a controller that creates Pods again: the number of those that have left, and the time until which the next
// one rests. Every eviction would create the next Pod of a controller that ignores the cordon (Cluster API #12640, machine-api-operator
// #1051).
type respawning struct {
	times int
	until time.Time
}

// look updates the attempts for the Pods of a Step, and returns the holds on them. A Pod counts as created again when it is late, and a Pod
// of its controller was evicted before; clocks are not compared. Then it rests, longer each time.
func (ns *nodeState) look(shown []drain.Decision, paused *pause, now time.Time) map[types.UID]drain.Hold {
	before := ns.attempts
	ns.attempts = make(map[types.UID]*attempt, len(shown))
	held := map[types.UID]drain.Hold{}
	for i := range shown {
		pod, goes := shown[i].Pod, shown[i].Action != drain.Ignore
		a := before[pod.UID]
		if a == nil {
			a = &attempt{ref: drain.RefOf(pod), ns: ns, late: ns.sawCordon}
			a.controller = ptr.Deref(metav1.GetControllerOfNoCopy(pod), metav1.OwnerReference{}).UID
		}
		if ns.attempts[pod.UID] = a; goes && !a.goes && before != nil {
			ns.boundAt = now
		}
		a.goes = goes
		a.endIfOver(now)
		hold, holds := a.hold(paused, now)
		if !holds && a.late && now.Before(ns.respawns[a.controller].until) {
			hold, holds = drain.Hold{Reason: drain.ReasonRespawned, Message: respawnedMessage}, true
		}
		if holds {
			held[pod.UID] = hold
		}
	}
	for uid, a := range before {
		if ns.attempts[uid] == nil {
			a.drop()
		}
	}
	ns.sawCordon = ns.sawCordon || !ns.cordon.since.IsZero()
	return held
}

const respawnedMessage = "its controller creates Pods on the cordoned Node again; let them not tolerate the taint " +
	corev1.TaintNodeUnschedulable + ", or exempt them from the drain"

// hopeless reports whether the rules allow the eviction of a Pod but its budgets never will, as far as the plan can detect. The eviction is
// requested nevertheless, because the API server decides and webhooks act on the request: KubeVirt migrates the virtual machine, which has
// its own budget, and Strimzi's drain cleaner makes the operator of Kafka restart the Pod.
func hopeless(d *drain.Decision) bool {
	return d.Intended == drain.Evict && d.Action == drain.Deny &&
		(d.Reason == drain.ReasonBudgetNeverAllows || d.Reason == drain.ReasonMultipleBudgets)
}

// carryOut queues a request for a Pod that may leave, and for one whose budgets are closed if it is a hopeless Pod that does not rest, or a
// probe. After an error, a Pod is reported as before until the next response, so that neither its message nor its Since changes with every
// attempt.
func (ns *nodeState) carryOut(d *drain.Decision, known budgets, now time.Time) {
	a := ns.attempts[d.Pod.UID]
	inSpite := a.state == idle && (hopeless(d) && !now.Before(a.retryAt) ||
		isOfBudget(d.Reason) && len(d.Budgets) == 1 && known[d.Budgets[0]].mayProbe(now))
	switch {
	case a.state == inFlight:
	case d.Action == drain.Evict, d.Action == drain.Delete, inSpite:
		a.queue(d, known, now)
		if a.rest.Reason != "" {
			d.Action, d.Reason, d.Message = drain.Wait, a.rest.Reason, a.rest.Message
		}
	case a.state == queued && (d.Reason == drain.ReasonLowerOrder || d.Intended != a.action):
		a.withdraw()
	}
	if d.Action == drain.Wait || d.Action == drain.Deny {
		for _, name := range d.Budgets {
			ns.waits[name] = true
		}
	}
}

// queue queues the request for a Pod. A queued eviction may become a deletion. For budgets, the plan is newer than the last response.
func (a *attempt) queue(d *drain.Decision, known budgets, now time.Time) {
	action := drain.Evict
	if d.Action == drain.Delete {
		action = drain.Delete
	}
	switch {
	case a.state == queued && a.action == action:
		a.grace = d.GracePeriodSeconds
		return
	case a.state != queued:
		a.ns.queue = append(a.ns.queue, a.ref.UID)
	}
	a.releaseToken()
	if action == drain.Delete || a.failures == 0 || isOfBudget(a.rest.Reason) {
		a.rest = drain.Hold{}
	}
	a.action, a.grace, a.state, a.hopeless, a.budget = action, d.GracePeriodSeconds, queued, hopeless(d), nil
	if action == drain.Evict && (len(d.Budgets) == 1 || a.hopeless) {
		a.budget = known[d.Budgets[0]]
	}
	probe := d.Action != action
	if a.token = a.budget != nil && len(d.Budgets) == 1 && (d.TakesToken || probe); a.token {
		a.budget.take(a, probe, now)
	}
}

func isOfBudget(r drain.Reason) bool {
	return r == drain.ReasonBudgetExhausted || r == drain.ReasonBudgetStale
}

func (a *attempt) withdraw() {
	a.releaseToken()
	a.state = idle
	a.unqueue()
}

func (a *attempt) unqueue() {
	a.ns.queue = slices.DeleteFunc(a.ns.queue, func(uid types.UID) bool { return uid == a.ref.UID })
}

// drop ends the attempt. The token of an accepted eviction remains until the status of the budget shows it, and that of a request in flight
// until the response: the Pod may be gone before that.
func (a *attempt) drop() {
	if a.state != accepted && a.state != inFlight {
		a.releaseToken()
	}
	a.unqueue()
	delete(a.ns.attempts, a.ref.UID)
}

func (a *attempt) releaseToken() {
	if a.token && a.budget.tokens[a.ref.UID] == a {
		delete(a.budget.tokens, a.ref.UID)
	}
	a.token = false
}

// hold returns the hold for the plan; held is false when no request is pending, or the plan has the reason.
func (a *attempt) hold(paused *pause, now time.Time) (hold drain.Hold, held bool) {
	switch {
	case a.state == accepted:
		return drain.Hold{Reason: drain.ReasonEvictionAccepted}, true
	case a.state == idle, a.rest.Reason == "" && (a.state == resting || a.hopeless):
		return drain.Hold{}, false
	case a.state == queued && now.Before(paused.until):
		return paused.hold, true
	}
	hold = cmp.Or(a.rest, drain.Hold{Reason: drain.ReasonEvictionRequested})
	if a.action == drain.Evict && a.state != inFlight { // a hold on an eviction does not delay a deletion
		hold.Only = drain.Evict
	}
	return hold, a.state != queued || a.action == drain.Evict // a deletion is planned again, because its grace period may have changed
}

// shownBy reports whether the status of the budget accounts for the eviction. The API server records the Pod's name there until the budget
// controller has counted it; a version newer than the one at the acceptance is later than both. The limit acceptedFor prevents the loss of
// a token.
func (a *attempt) shownBy(pdb *policyv1.PodDisruptionBudget, now time.Time) bool {
	if a.state != accepted {
		return false
	}
	_, recorded := pdb.Status.DisruptedPods[a.ref.Name]
	return recorded || !now.Before(a.retryAt) || newer(pdb.ResourceVersion, a.seenRV)
}

// endIfOver ends a state: the Pod has rested, its budget has changed since the refusal, or an acceptance has had no effect for too long.
func (a *attempt) endIfOver(now time.Time) {
	over := !now.Before(a.retryAt)
	switch {
	case a.state == accepted && over:
		a.releaseToken()
		a.state = idle
	case a.state == resting && (over || a.budget != nil && a.seenRV != "" && a.seenRV != a.budget.seenRV):
		a.state = idle
	}
}

// succeeded records that the eviction or deletion was accepted, or that the Pod is gone.
func (a *attempt) succeeded(o drain.Outcome, now time.Time) {
	a.state, a.failures, a.retryAt = accepted, 0, now.Add(acceptedFor)
	if o.Reason == drain.ReasonGone {
		a.releaseToken()
		a.retryAt = now.Add(probeInterval)
	}
	if a.budget != nil {
		a.seenRV = a.budget.seenRV
	}
	if a.controller != "" {
		c := a.ns.respawns[a.controller]
		if a.late {
			c.times++
		}
		c.until = now.Add(drain.Rest(drain.ReasonRespawned, 0, c.times+1))
		a.ns.respawns[a.controller] = c
	}
}

// refused starts the rest of the Pod. When the budgets of a hopeless Pod refuse it, the hold is empty: the plan has the reason, and
// recognizes its end.
func (a *attempt) refused(o drain.Outcome, now time.Time) {
	a.failures++
	a.state, a.rest, a.seenRV = resting, drain.Hold{Reason: o.Reason, Message: o.Message}, ""
	reason, first := o.Reason, o.RetryAfter
	switch {
	case a.hopeless && (isOfBudget(o.Reason) || o.Reason == drain.ReasonMultipleBudgets):
		a.rest = drain.Hold{}
		reason, first = drain.ReasonBudgetNeverAllows, 0
	case isOfBudget(o.Reason) && a.budget != nil:
		a.seenRV = a.budget.seenRV
	}
	a.retryAt = now.Add(drain.Rest(reason, first, a.failures))
}
