package runner

import (
	"cmp"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// acceptedFor is how long an accepted eviction is trusted while the Pod is not seen terminating. Then it is requested again.
const acceptedFor = 30 * time.Second

type attemptState uint8

const (
	idle     attemptState = iota // only its failures are remembered
	queued                       // waits for its turn
	inFlight                     // the request was sent
	accepted                     // the API server accepted it; the Pod is not seen terminating yet
	resting                      // refused; may be requested again at retryAt
)

// attempt is what is known about the eviction or deletion of one Pod. It ends with the Pod or the drain of the Node. The lock of the Runner
// guards it; ref, action and grace do not change while the request is in flight.
type attempt struct {
	ref        PodRef
	ns         *nodeState
	controller types.UID
	action     drain.Action // Evict or Delete
	grace      *int64
	state      attemptState
	// rest is what is reported while resting, where empty means what the plan says, and from then until the next answer, where empty means
	// that the eviction is requested.
	rest     drain.Hold
	retryAt  time.Time // while resting or accepted
	failures int
	hopeless bool         // the plan denies the request
	budget   *budgetState // the only budget that selects the Pod, or the first of a hopeless Pod; nil if there is none
	token    bool         // counts against the budget until its status shows the eviction
	seenRV   string       // version of the budget known when the eviction was accepted, or refused because of the budget
}

// hopeless reports that the rules let a Pod be evicted and that, as far as the plan can know, its budgets never do. The Pod is requested
// nevertheless, because the API server decides and webhooks act on the request: KubeVirt migrates the virtual machine, which has a budget
// of its own, and Strimzi's drain cleaner lets the operator of Kafka restart the Pod.
func hopeless(d *drain.Decision) bool {
	return d.Intended == drain.Evict && d.Action == drain.Deny &&
		(d.Reason == drain.ReasonBudgetNeverAllows || d.Reason == drain.ReasonMultipleBudgets)
}

// enqueue puts the eviction or deletion of a Pod into the queue of its Node, and lets the decision report it. A queued eviction may become
// a deletion. A Pod that failed by an error, and a hopeless one, is reported as before until the answer, so that neither its message nor
// its Since changes with every attempt.
func (ns *nodeState) enqueue(d *drain.Decision, known budgets, token bool) {
	a := ns.attempts[d.Pod.UID]
	if a == nil {
		a = &attempt{ref: drain.RefOf(d.Pod), ns: ns, controller: controllerOf(d.Pod)}
		ns.attempts[a.ref.UID] = a
	}
	a.queue(d, known, token)
	if a.rest.Reason != "" {
		d.Action, d.Reason, d.Message = drain.Wait, a.rest.Reason, a.rest.Message
	}
}

func (a *attempt) queue(d *drain.Decision, known budgets, token bool) {
	action := drain.Evict
	if d.Action == drain.Delete {
		action = drain.Delete
	}
	switch {
	case a.state == inFlight:
		return
	case a.state == queued && a.action == action:
		a.grace = d.GracePeriodSeconds
		return
	case a.state != queued:
		a.ns.queue = append(a.ns.queue, a.ref.UID)
	}
	a.releaseToken()
	a.wait(d, action)
	a.action, a.grace, a.state, a.hopeless, a.budget = action, d.GracePeriodSeconds, queued, hopeless(d), nil
	if action == drain.Evict && (len(d.Budgets) == 1 || a.hopeless) {
		a.budget = known[d.Budgets[0]]
	}
	if a.token = token && a.budget != nil; a.token {
		a.budget.tokens[a.ref.UID] = a
	}
}

// wait sets what is reported of a new request until its answer. About budgets, the plan knows more than the last answer.
func (a *attempt) wait(d *drain.Decision, action drain.Action) {
	ofBudget := a.rest.Reason == drain.ReasonBudgetExhausted || a.rest.Reason == drain.ReasonBudgetStale
	switch never := hopeless(d); {
	case action == drain.Delete, !never && (a.failures == 0 || ofBudget):
		a.rest = drain.Hold{}
	case never && (!a.hopeless || a.rest.Reason == ""):
		a.rest = drain.Hold{Reason: d.Reason, Message: d.Message}
	}
}

// withdraw removes a queued request.
func (a *attempt) withdraw() {
	a.releaseToken()
	a.state = idle
	a.unqueue()
}

func (a *attempt) unqueue() {
	a.ns.queue = slices.DeleteFunc(a.ns.queue, func(uid types.UID) bool { return uid == a.ref.UID })
}

// drop ends the attempt. The token of an accepted eviction stays until the status of the budget shows it, and that of a request in flight
// until the answer: the Pod may be gone before that.
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

// hold returns what a plan has to know of the Pod; held is false when nothing is under way.
func (a *attempt) hold(paused *pause, now time.Time) (hold drain.Hold, held bool) {
	hold = cmp.Or(a.rest, drain.Hold{Reason: drain.ReasonEvictionRequested})
	switch a.state {
	case queued:
		if now.Before(paused.until) && !a.hopeless {
			return paused.hold, true
		}
		hold.Only = drain.Evict
		return hold, a.action == drain.Evict // a deletion is planned again, because its grace period may have changed
	case inFlight:
		return hold, true
	case accepted:
		return drain.Hold{Reason: drain.ReasonEvictionAccepted}, true
	case resting:
		hold = a.rest
		if a.action == drain.Evict { // what refuses an eviction does not hold a deletion
			hold.Only = drain.Evict
		}
		return hold, hold.Reason != ""
	case idle:
	}
	return drain.Hold{}, false
}

// shownBy reports whether the status of the budget accounts for the eviction. The API server records the Pod's name there until the budget
// controller has counted it; a version newer than the one known at the acceptance is later than both. The limit acceptedFor prevents the
// loss of a token.
func (a *attempt) shownBy(pdb *policyv1.PodDisruptionBudget, now time.Time) bool {
	if a.state != accepted {
		return false
	}
	_, recorded := pdb.Status.DisruptedPods[a.ref.Name]
	return recorded || !now.Before(a.retryAt) || newer(pdb.ResourceVersion, a.seenRV)
}

// ended reports whether the state of an attempt is over: the Pod has rested, its budget has changed since it refused, or an acceptance has
// had no effect for too long.
func (a *attempt) ended(now time.Time) bool {
	switch a.state {
	case resting:
		return !now.Before(a.retryAt) || a.budget != nil && a.seenRV != "" && a.seenRV != a.budget.seenRV
	case accepted:
		return !now.Before(a.retryAt)
	case idle, queued, inFlight:
	}
	return false
}

// succeeded records that the eviction or deletion was accepted, or that the Pod is gone.
func (a *attempt) succeeded(o drain.Outcome, now time.Time) {
	a.state, a.failures, a.retryAt = accepted, 0, now.Add(acceptedFor)
	if o.Reason == drain.ReasonEvictionAccepted && a.token && !now.Before(a.budget.closedUntil) {
		a.budget.closedRV = "" // the API server accepted a probe
	}
	if o.Reason == drain.ReasonGone {
		a.releaseToken()
		a.retryAt = now.Add(probeInterval)
	}
	if a.budget != nil {
		a.seenRV = a.budget.seenRV
	}
	a.ns.respawns.evicted(a.ref.UID, a.controller, now)
}

// refused lets the Pod rest. The refusal of a hopeless Pod by its budgets is what the plan says, which also recognizes its end.
func (a *attempt) refused(o drain.Outcome, now time.Time) {
	a.failures++
	a.state, a.rest, a.seenRV = resting, drain.Hold{Reason: o.Reason, Message: o.Message}, ""
	reason, first := o.Reason, o.RetryAfter
	closed := o.Reason == drain.ReasonBudgetExhausted || o.Reason == drain.ReasonBudgetStale
	switch {
	case a.hopeless && (closed || o.Reason == drain.ReasonMultipleBudgets):
		a.rest = drain.Hold{}
		reason, first = drain.ReasonBudgetNeverAllows, 0
	case closed && a.budget != nil:
		a.seenRV = a.budget.seenRV
	}
	a.retryAt = now.Add(drain.Rest(reason, first, a.failures))
}
