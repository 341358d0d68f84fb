package runner

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	shortens   bool // the Pod was terminating when it was requested
	state      attemptState
	hold       drain.Hold // while resting
	retryAt    time.Time  // while resting or accepted
	failures   int
	against    drain.Hold   // the plan denies the request: what is reported until the answer
	budget     *budgetState // the only budget that selects the Pod, or the first of a hopeless Pod; nil if there is none
	token      bool         // counts against the budget until its status shows the eviction
	seenRV     string       // version of the budget known when the eviction was accepted, or refused because of the budget
}

// enqueue puts a planned eviction or deletion into the queue of its Node. A queued eviction may become a deletion.
func (ns *nodeState) enqueue(d *drain.Decision, known budgets, token bool) *attempt {
	a := ns.attempts[d.Pod.UID]
	if a == nil {
		a = &attempt{ref: drain.RefOf(d.Pod), ns: ns, controller: controllerOf(d.Pod)}
		ns.attempts[a.ref.UID] = a
	}
	action := drain.Evict
	if d.Action == drain.Delete {
		action = drain.Delete
	}
	switch {
	case a.state == inFlight:
		return a
	case a.state == queued && a.action == action:
		a.grace = d.GracePeriodSeconds
		return a
	case a.state != queued:
		ns.queue = append(ns.queue, a.ref.UID)
	}
	a.releaseToken()
	a.action, a.grace, a.shortens = action, d.GracePeriodSeconds, d.Pod.DeletionTimestamp != nil
	a.state, a.against, a.budget = queued, drain.Hold{}, nil
	if a.action == drain.Evict && (len(d.Budgets) == 1 || hopeless(d)) {
		a.budget = known[d.Budgets[0]]
	}
	if a.token = token && a.budget != nil; a.token {
		a.budget.tokens[a.ref.UID] = a
	}
	return a
}

// hopeless reports that the rules let a Pod be evicted and that, as far as the plan can know, its budgets never do. The Pod is requested
// nevertheless, because the API server decides and webhooks act on the request: KubeVirt migrates the virtual machine, which has a budget
// of its own, and Strimzi's drain cleaner lets the operator of Kafka restart the Pod.
func hopeless(d *drain.Decision) bool {
	return d.Intended == drain.Evict && d.Action == drain.Deny &&
		(d.Reason == drain.ReasonBudgetNeverAllows || d.Reason == drain.ReasonMultipleBudgets)
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

// refresh drops attempts whose Pods are gone or terminating, and ends rests.
func (ns *nodeState) refresh(pods []*corev1.Pod, now time.Time) {
	alive := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		alive[pod.UID] = pod
	}
	for uid, a := range ns.attempts {
		pod := alive[uid]
		switch {
		case pod == nil, pod.DeletionTimestamp != nil && a.state != inFlight && !a.shortens:
			a.drop()
		case a.state == resting && (!now.Before(a.retryAt) || a.budget != nil && a.seenRV != "" && a.seenRV != a.budget.seenRV):
			a.state = idle // the rest is over, or the budget that refused has changed
		case a.state == accepted && !now.Before(a.retryAt):
			a.releaseToken()
			a.state = idle
		}
	}
}

// held returns the holds of the Pods that the planner must not touch.
func (ns *nodeState) held(paused *pause, now time.Time) map[types.UID]drain.Hold {
	held := make(map[types.UID]drain.Hold, len(ns.attempts))
	for uid, a := range ns.attempts {
		hold := cmp.Or(a.against, drain.Hold{Reason: drain.ReasonEvictionRequested})
		switch a.state {
		case idle:
			continue
		case queued:
			if now.Before(paused.until) && a.against.Reason == "" {
				held[uid] = paused.hold
				continue
			}
			if a.action != drain.Evict { // a deletion is planned again, because its grace period may have changed
				continue
			}
			hold.Only = drain.Evict
		case inFlight:
			hold.Only = drain.Undecided
		case accepted:
			hold = drain.Hold{Reason: drain.ReasonEvictionAccepted}
		case resting:
			if hold = a.hold; hold.Reason == "" {
				continue // refused as planned
			}
			if a.action == drain.Evict { // what refuses an eviction does not hold a deletion
				hold.Only = drain.Evict
			}
		}
		held[uid] = hold
	}
	return held
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

// succeeded records that the eviction or deletion was accepted, or that the Pod is gone.
func (a *attempt) succeeded(o drain.Outcome, probe time.Duration, now time.Time) {
	a.state, a.failures, a.retryAt = accepted, 0, now.Add(max(acceptedFor, o.RetryAfter))
	if o.Class == drain.Accepted && a.token && !now.Before(a.budget.closedUntil) {
		a.budget.closedRV = "" // the API server accepted a probe
	}
	if o.Class == drain.Gone {
		a.releaseToken()
		a.retryAt = now.Add(probe)
	}
	if a.budget != nil {
		a.seenRV = a.budget.seenRV
	}
	a.ns.respawns.evicted(a.ref.UID, a.controller, now)
}

// refused lets the Pod rest.
func (a *attempt) refused(o drain.Outcome, probe time.Duration, now time.Time) {
	a.failures++
	a.state, a.hold = resting, drain.HoldFor(o)
	against := a.against.Reason != ""
	if against && (o.Class == drain.BudgetExhausted || o.Class == drain.MultipleBudgets) {
		a.hold = drain.Hold{} // the plan says more about it, and recognizes its end
	}
	a.retryAt = now.Add(backoff(o, a.failures, against, probe))
	a.seenRV = ""
	if a.budget != nil && !against && (o.Class == drain.BudgetExhausted || o.Class == drain.BudgetStale) {
		a.seenRV = a.budget.seenRV
	}
}

// retried reports whether an eviction that failed by an error is requested again. About budgets, the plan knows more than the last answer.
func (a *attempt) retried() bool {
	if a.failures == 0 || a.action != drain.Evict || a.state != queued && a.state != inFlight {
		return false
	}
	return a.hold.Reason != drain.ReasonBudgetExhausted && a.hold.Reason != drain.ReasonBudgetStale && a.hold.Reason != ""
}

// backoff returns how long a Pod rests: the time of the class, doubled with every failure in a row up to a limit. A closed budget may open
// at any time and is tried after probe, unless the plan denies the request because the budget never opens.
func backoff(o drain.Outcome, failures int, against bool, probe time.Duration) time.Duration {
	limit := o.RetryAfter
	switch o.Class {
	case drain.BudgetExhausted:
		if !against {
			return probe
		}
		o.RetryAfter, limit = minProbeRest, maxProbeRest
	case drain.Forbidden, drain.AdmissionDenied, drain.MultipleBudgets, drain.EndpointMissing, drain.Invalid:
		limit = 5 * time.Minute
	case drain.ServerError:
		limit = time.Minute
	case drain.UnknownOutcome:
		limit = 30 * time.Second
	case drain.Conflict:
		limit = 2 * time.Second
	default:
	}
	return max(o.RetryAfter, min(o.RetryAfter<<min(failures-1, 10), limit))
}

// How long the Pods of a controller that creates them again on a cordoned Node rest, doubled with each one that left.
const (
	minRespawnRest = 5 * time.Second
	maxRespawnRest = 5 * time.Minute
)

// respawns limits the evictions of Pods whose controller ignores the cordon: every eviction would create the next Pod (Cluster API #12640,
// machine-api-operator #1051). A Pod counts as created again when it was not on the Node at the first Step that was shown the cordon, and a
// Pod of its controller was evicted before. Clocks are not compared.
type respawns struct {
	known       map[types.UID]bool // Pods of the first look; nil before it
	controllers map[types.UID]respawning
}

type respawning struct {
	times int
	until time.Time
}

// look remembers the Pods that are on the Node when the cordon is first seen.
func (s *respawns) look(pods []*corev1.Pod) {
	if s.known != nil {
		return
	}
	s.known, s.controllers = make(map[types.UID]bool, len(pods)), map[types.UID]respawning{}
	for _, pod := range pods {
		s.known[pod.UID] = true
	}
}

// evicted records that a Pod was evicted or deleted.
func (s *respawns) evicted(pod types.UID, controller types.UID, now time.Time) {
	if controller == "" || s.known == nil {
		return
	}
	c := s.controllers[controller]
	rest := minRespawnRest
	if !s.known[pod] {
		c.times++
		rest = min(maxRespawnRest, minRespawnRest<<min(c.times, 10))
	}
	c.until = now.Add(rest)
	s.controllers[controller] = c
}

// hold adds holds for the Pods that rest, and returns when the first rest ends; zero when none rests.
func (s *respawns) hold(pods []*corev1.Pod, held map[types.UID]drain.Hold, now time.Time) (next time.Time) {
	if len(s.controllers) == 0 {
		return time.Time{}
	}
	for _, pod := range pods {
		c := s.controllers[controllerOf(pod)]
		if _, busy := held[pod.UID]; busy || s.known[pod.UID] || !now.Before(c.until) {
			continue
		}
		held[pod.UID] = drain.Hold{
			Reason: drain.ReasonRespawned,
			Message: "its controller creates Pods on the cordoned Node again; let them not tolerate the taint " +
				corev1.TaintNodeUnschedulable + ", or exempt them from the drain",
		}
		if next.IsZero() || c.until.Before(next) {
			next = c.until
		}
	}
	return next
}

func controllerOf(pod *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return ref.UID
	}
	return ""
}
