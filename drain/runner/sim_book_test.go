package runner_test

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// simBook is what one process was shown, asked and was told. All that it demands follows from that, never from looking
// into the Runner.
type simBook struct {
	seen    map[string]*simSeen // by Node that is being drained
	pods    map[types.UID]*simAsked
	flying  []*simAsked
	budgets map[types.NamespacedName]*simPurse
	pause   time.Time // nothing may be sent before
	unfair  map[string]map[string]int

	probe time.Duration
}

// simSeen is the latest complete look at a Node.
type simSeen struct {
	simView
	uid     types.UID          // of the Node that was passed to Step
	waiting map[types.UID]bool // pods without a budget that were never asked for: nothing may hold them back
	// What Steps were shown since nothing was queued for the Node: the most that a budget allowed, and the budget that pods
	// had when they may have been queued, empty for none.
	most  map[types.NamespacedName]int32
	under map[types.UID]types.NamespacedName
	// What looks have shown since a pod was asked for: the first of the budgets that would never let it go, and whether it could
	// have been queued without such.
	against map[types.UID]types.NamespacedName
	free    map[types.UID]bool
}

// simAsked is the latest request for one pod.
type simAsked struct {
	q        *simRequest
	node     string
	budget   types.NamespacedName // the one that selects the pod, as the cache has it
	token    bool                 // it counts against what the budget allows
	probe    bool                 // beyond what the budget allows
	against  types.NamespacedName // the first of the budgets that can never let it go; empty if there are none
	sure     bool                 // it was asked for against them, beyond doubt
	flying   bool
	answer   simKind
	rest     time.Time // not to be asked for again before
	trusted  time.Time // accepted, until then
	version  string    // of the budget that Steps knew when the answer came
	released bool      // the Node was released since
}

// simPurse is one budget as the process's Steps have seen it.
type simPurse struct {
	obj    *policyv1.PodDisruptionBudget
	tokens []*simAsked
	probes float64 // requests that it has left although the budget is closed
	filled time.Time

	closedSince, closedLast time.Time // as Steps saw it, short openings not counted
}

func newSimBook(probe time.Duration) simBook {
	return simBook{
		probe: probe,
		seen:  map[string]*simSeen{}, pods: map[types.UID]*simAsked{}, budgets: map[types.NamespacedName]*simPurse{},
		unfair: map[string]map[string]int{},
	}
}

func (b *simBook) released(node string) {
	delete(b.seen, node)
	clear(b.unfair)
	for _, a := range b.pods {
		if a.node == node {
			a.released = true
			a.rest, a.trusted = time.Time{}, time.Time{}
		}
	}
}

// jumped ends every demand that a clock measures.
func (b *simBook) jumped() {
	b.pause = time.Time{}
	for _, a := range b.pods {
		a.rest, a.trusted = time.Time{}, time.Time{}
	}
	for _, purse := range b.budgets {
		purse.tokens = nil
		purse.probes++
		purse.closedSince = time.Time{}
	}
}

// show books what a Step has read.
func (b *simBook) show(node *corev1.Node, view simView, result runner.Result) {
	old := b.seen[node.Name]
	if old != nil && old.uid != node.UID {
		b.released(node.Name)
		old = nil
	}
	seen := &simSeen{
		simView: view, uid: node.UID, waiting: map[types.UID]bool{},
		most: map[types.NamespacedName]int32{}, under: map[types.UID]types.NamespacedName{},
		against: map[types.UID]types.NamespacedName{}, free: map[types.UID]bool{},
	}
	b.seen[node.Name] = seen
	b.showPods(seen, old)
	for name, pdb := range view.budgets {
		purse := b.budgets[name]
		if purse == nil {
			purse = &simPurse{probes: 1, filled: time.Now()}
			b.budgets[name] = purse
		}
		purse.see(pdb, holds(result, name), b.probe)
		seen.most[name] = allows(pdb)
	}
	again := slices.ContainsFunc(result.Blockers, func(bl drain.Blocker) bool { // what errors keep back may be queued again
		return bl.Reason != drain.ReasonBudgetExhausted && bl.Reason != drain.ReasonBudgetStale && bl.Reason != drain.ReasonBudgetNeverAllows
	})
	if result.Counts.Evictable == 0 && !again { // nothing is queued but a probe perhaps
		clear(seen.most)
	} else if old != nil {
		seen.carry(old)
	}
}

func (b *simBook) showPods(seen, old *simSeen) {
	for _, pod := range seen.pods {
		_, count := selecting(seen.budgets, pod)
		if old != nil && old.under[pod.UID] != (types.NamespacedName{}) {
			count++ // it may be queued under a budget that is gone
		}
		if count == 0 && pod.DeletionTimestamp == nil && !ignoredPod(pod) && b.pods[pod.UID] == nil && !seen.before(pod) {
			seen.waiting[pod.UID] = true
		}
		if name, may := payer(seen.budgets, pod); may {
			seen.under[pod.UID] = name
		}
		if old != nil { // it may be queued since then
			seen.against[pod.UID], seen.free[pod.UID] = old.against[pod.UID], old.free[pod.UID]
		}
		if name, is := hopeless(seen.budgets, pod); is {
			seen.against[pod.UID] = name
		} else {
			seen.free[pod.UID] = true
		}
	}
}

// holds says whether a Step reported that a budget holds pods.
func holds(result runner.Result, budget types.NamespacedName) bool {
	return slices.ContainsFunc(result.Blockers, func(bl drain.Blocker) bool { return slices.Contains(bl.Budgets, budget) })
}

// carry takes over what pods may still be queued for since earlier looks.
func (v *simSeen) carry(old *simSeen) {
	for uid, name := range old.under {
		if fresh, found := v.under[uid]; !found || fresh != (types.NamespacedName{}) {
			v.under[uid] = name
		}
	}
	for name, most := range old.most {
		v.most[name] = max(v.most[name], most)
	}
}
