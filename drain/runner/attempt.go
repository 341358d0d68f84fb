package runner

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/machinist-dev/machinist/drain"
)

type attemptState uint8

const (
	idle     attemptState = iota // remembered only for its failures
	queued                       // waits for its turn
	inFlight                     // the request is on its way
	accepted                     // the server said yes; the pod was not seen terminating yet
	resting                      // refused; may be asked for again at retryAt
)

// attempt is what is known about the eviction or deletion of one pod. It vanishes with the pod or the Node.
type attempt struct {
	ref        PodRef
	node       string
	controller types.UID
	action     drain.Action // Evict or Delete
	grace      *int64
	shortens   bool // the pod was terminating when it was asked for
	state      attemptState
	hold       drain.Hold // while resting
	retryAt    time.Time  // while resting or accepted
	failures   int
	against    drain.Hold           // asked for although the plan denies it: what is reported until the answer comes
	budget     types.NamespacedName // the only budget that selects the pod, or the first of a hopeless one; empty if there is none
	token      bool                 // counts against the budget until its status shows the eviction
	seenRV     string               // the budget's version known when the eviction was accepted, or refused for the budget
}

// budgetState is shared by all Nodes.
type budgetState struct {
	lookedAt    time.Time // by a Step
	seenRV      string    // newest version that a Step has seen
	tokens      map[types.UID]*attempt
	inFlight    int
	limit       int       // of requests under way, halved by contention
	closedRV    string    // version at which the server refused
	closedUntil time.Time // acceptances before are of requests sent before the refusal
	restUntil   time.Time // no request at all before
	probeAt     time.Time // when to try one pod although the cached status says no
}

func (r *Runner) budgetLocked(name types.NamespacedName) *budgetState {
	b := r.budgets[name]
	if b == nil {
		b = &budgetState{tokens: map[types.UID]*attempt{}, limit: r.cfg.MaxInFlightPerBudget}
		r.budgets[name] = b
	}
	return b
}

// observeLocked takes in what a Step read and returns, per budget, the evictions that its status does not show yet.
func (r *Runner) observeLocked(budgets []*policyv1.PodDisruptionBudget, now time.Time) map[types.NamespacedName]int32 {
	spent := map[types.NamespacedName]int32{}
	for _, pdb := range budgets {
		name := types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}
		b := r.budgetLocked(name)
		b.lookedAt = now
		if b.seenRV == "" || newer(pdb.ResourceVersion, b.seenRV) {
			b.seenRV = pdb.ResourceVersion
		}
		if b.closed(now) {
			spent[name] = math.MaxInt32
			continue
		}
		for uid, a := range b.tokens {
			if a.shownBy(pdb, now) {
				a.token = false
				delete(b.tokens, uid)
				continue
			}
			spent[name]++
		}
	}
	return spent
}

// asked says whether a request that counts against the budget is queued or under way.
func (b *budgetState) asked() bool {
	for _, a := range b.tokens {
		if a.state == queued || a.state == inFlight {
			return true
		}
	}
	return false
}

// over says whether nothing is left that a Node drained later would have to know.
func (b *budgetState) over(now time.Time) bool {
	for _, a := range b.tokens {
		if a.state != accepted || now.Before(a.retryAt) {
			return false
		}
	}
	return b.inFlight == 0 && !now.Before(b.closedUntil) && !now.Before(b.restUntil)
}

// forgotten says that a budget which no Step has looked at for so long is dropped: it, or its namespace, does not exist any more, or selects
// no pod of a draining Node.
func (b *budgetState) forgotten(now time.Time, after time.Duration) bool {
	return b.over(now) && now.Sub(b.lookedAt) >= after
}

// closed says that the cached status is not to be trusted: the server has just refused what this version of it promises.
// Only probes go out then, until a newer version comes or the server accepts one of them.
func (b *budgetState) closed(now time.Time) bool {
	return now.Before(b.restUntil) || b.closedRV != "" && b.seenRV == b.closedRV
}

// shownBy says whether the budget's status accounts for the eviction. The server records the pod's name there until the
// budget controller has counted it; a version newer than the one known at the acceptance is later than both. The end of
// the acceptance's own time keeps a budget from losing a token for good.
func (a *attempt) shownBy(pdb *policyv1.PodDisruptionBudget, now time.Time) bool {
	if a.state != accepted {
		return false
	}
	if !now.Before(a.retryAt) {
		return true
	}
	if _, recorded := pdb.Status.DisruptedPods[a.ref.Name]; recorded {
		return true
	}
	return newer(pdb.ResourceVersion, a.seenRV)
}

// newer compares resource versions; versions that cannot be compared count as newer when they differ.
func newer(a, b string) bool {
	if c, err := resourceversion.CompareResourceVersion(a, b); err == nil {
		return c > 0
	}
	return a != b
}

// refreshLocked drops attempts whose pods are gone or terminating, and ends rests that are over.
func (r *Runner) refreshLocked(ns *nodeState, pods []*corev1.Pod, now time.Time) {
	alive := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		alive[pod.UID] = pod
	}
	for uid, a := range ns.attempts {
		pod := alive[uid]
		switch {
		case pod == nil:
			r.dropLocked(ns, a)
		case pod.DeletionTimestamp != nil && a.state != inFlight && !a.shortens:
			r.dropLocked(ns, a)
		case a.state == resting && (!now.Before(a.retryAt) || r.reopenedLocked(a)):
			a.state = idle
		case a.state == accepted && !now.Before(a.retryAt):
			r.releaseTokenLocked(a)
			a.state = idle
		}
	}
}

// reopenedLocked says whether the budget that refused the pod has changed since.
func (r *Runner) reopenedLocked(a *attempt) bool {
	b := r.budgets[a.budget]
	return b != nil && a.seenRV != "" && a.seenRV != b.seenRV
}

// heldLocked tells the planner which pods to leave alone.
func (r *Runner) heldLocked(ns *nodeState, now time.Time) map[types.UID]drain.Hold {
	held := make(map[types.UID]drain.Hold, len(ns.attempts))
	for uid, a := range ns.attempts {
		switch a.state {
		case queued:
			if now.Before(r.paused.until) && a.against.Reason == "" {
				held[uid] = r.paused.hold
			} else if a.action == drain.Evict { // a deletion is planned anew, because its grace period may have changed
				hold := a.asked()
				hold.Only = drain.Evict
				held[uid] = hold
			}
		case inFlight:
			held[uid] = a.asked()
		case accepted:
			held[uid] = drain.Hold{Reason: drain.ReasonEvictionAccepted}
		case resting:
			if a.hold.Reason == "" {
				continue // refused as the plan had said
			}
			held[uid] = a.hold
			if a.action == drain.Evict { // what refuses an eviction does not hold a deletion
				hold := a.hold
				hold.Only = drain.Evict
				held[uid] = hold
			}
		case idle:
		}
	}
	return held
}

// asked says what holds a pod that is queued or under way.
func (a *attempt) asked() drain.Hold {
	hold := cmp.Or(a.against, drain.Hold{Reason: drain.ReasonEvictionRequested})
	hold.Only = drain.Undecided
	return hold
}

// enqueueLocked puts a planned eviction or deletion into its Node's queue. A queued eviction may become a deletion.
func (r *Runner) enqueueLocked(ns *nodeState, d *drain.Decision, token bool) {
	a := r.attempts[d.Pod.UID]
	if a == nil {
		a = &attempt{ref: drain.RefOf(d.Pod), node: d.Node, controller: controllerOf(d.Pod)}
		r.attempts[a.ref.UID] = a
		ns.attempts[a.ref.UID] = a
	}
	action := drain.Evict
	if d.Action == drain.Delete {
		action = drain.Delete
	}
	if a.state == inFlight || a.state == queued && a.action == action {
		a.adjust(d)
		return
	}
	inQueue := a.state == queued
	r.releaseTokenLocked(a)
	a.action, a.grace, a.shortens = action, d.GracePeriodSeconds, d.Pod.DeletionTimestamp != nil
	a.state, a.against, a.budget, a.token = queued, drain.Hold{}, types.NamespacedName{}, token
	if action == drain.Evict && (len(d.Budgets) == 1 || hopeless(d)) {
		a.budget = d.Budgets[0]
		b := r.budgetLocked(a.budget)
		if token {
			b.tokens[a.ref.UID] = a
		}
	}
	if !inQueue {
		ns.queue = append(ns.queue, a.ref.UID)
	}
}

// askedAgain says that an eviction which an error refused is tried again. Of budgets the plan knows more than the last answer.
func (a *attempt) askedAgain() bool {
	if a.failures == 0 || a.action != drain.Evict || a.state != queued && a.state != inFlight {
		return false
	}
	switch a.hold.Reason {
	case drain.ReasonBudgetExhausted, drain.ReasonBudgetStale, "":
		return false
	default:
		return true
	}
}

// adjust takes over a grace period that was planned anew while the request still waits.
func (a *attempt) adjust(d *drain.Decision) {
	if a.state == queued {
		a.grace = d.GracePeriodSeconds
	}
}

// dropLocked forgets an attempt. The token of an accepted eviction stays with the budget until its status shows it, and
// that of one under way until its end: a pod may be gone before that.
func (r *Runner) dropLocked(ns *nodeState, a *attempt) {
	if a.state != accepted && a.state != inFlight {
		r.releaseTokenLocked(a)
	}
	if a.state == queued {
		ns.queue = slices.DeleteFunc(ns.queue, func(uid types.UID) bool { return uid == a.ref.UID })
	}
	delete(ns.attempts, a.ref.UID)
	delete(r.attempts, a.ref.UID)
}

func (r *Runner) releaseTokenLocked(a *attempt) {
	if !a.token {
		return
	}
	a.token = false
	if b := r.budgets[a.budget]; b != nil && b.tokens[a.ref.UID] == a {
		delete(b.tokens, a.ref.UID)
	}
}
