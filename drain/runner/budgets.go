package runner

import (
	"maps"
	"math"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/machinist-dev/machinist/drain"
)

// budgets are the PodDisruptionBudgets of all Nodes, by name. The lock of the Runner guards them.
type budgets map[types.NamespacedName]*budgetState

// budgetState is the state of one PodDisruptionBudget in the Runner.
type budgetState struct {
	name     types.NamespacedName
	lookedAt time.Time              // by a Step
	seenRV   string                 // newest resource version that a Step read
	tokens   map[types.UID]*attempt // evictions that count against the budget until its status shows them
	closedRV string                 // resource version at which the API server refused
	probeAt  time.Time              // when to request one Pod although the budget is closed
	asked    bool                   // a request that counts against it is queued or in flight
}

// observe records the budgets that a Step read, and drops those that no drain needs. It returns, per budget, the evictions that its status
// does not show yet.
func (s budgets) observe(read []*policyv1.PodDisruptionBudget, now time.Time) map[types.NamespacedName]int32 {
	maps.DeleteFunc(s, func(_ types.NamespacedName, b *budgetState) bool { return b.forgotten(now) })
	spent := make(map[types.NamespacedName]int32, len(read))
	for _, pdb := range read {
		name := types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name}
		b := s[name]
		if b == nil {
			b = &budgetState{name: name, tokens: map[types.UID]*attempt{}}
			s[name] = b
		}
		b.lookedAt = now
		if b.seenRV == "" || newer(pdb.ResourceVersion, b.seenRV) {
			b.seenRV = pdb.ResourceVersion
		}
		spent[name] = b.spent(pdb, now)
	}
	return spent
}

// forgotten reports whether no Step has read the budget for a minute and nothing counts against it: the budget or its Namespace no longer
// exists, or it selects no Pod of a draining Node.
func (b *budgetState) forgotten(now time.Time) bool {
	for _, a := range b.tokens {
		if a.state != accepted || now.Before(a.retryAt) {
			return false
		}
	}
	return now.Sub(b.lookedAt) >= time.Minute
}

// spent returns how many evictions the status does not show yet. For a closed budget it returns the maximum, also if the status allows
// evictions but the API server has refused one at this version.
func (b *budgetState) spent(pdb *policyv1.PodDisruptionBudget, now time.Time) int32 {
	spent := int32(0)
	b.asked = false
	for _, a := range b.tokens {
		if a.shownBy(pdb, now) {
			a.releaseToken()
			continue
		}
		spent++
		b.asked = b.asked || a.state != accepted
	}
	if closed := b.closedRV != "" && b.seenRV == b.closedRV; closed || spent >= pdb.Status.DisruptionsAllowed {
		return math.MaxInt32
	}
	return spent
}

// mayProbe reports whether one of the waiting Pods may be requested although the budget is closed: the API server decides, and an outdated
// cache must not stop a drain forever. Only one is requested in each interval, and none in the first.
func (b *budgetState) mayProbe(now time.Time) bool {
	if now.Sub(b.probeAt) > 4*probeInterval { // it has just closed, or closed again
		b.probeAt = now.Add(probeInterval)
	}
	return !b.asked && !now.Before(b.probeAt)
}

// take counts a request against the budget. The next probe is one interval after this one.
func (b *budgetState) take(a *attempt, probe bool, now time.Time) {
	if b.tokens[a.ref.UID], b.asked = a, true; probe {
		b.probeAt = now.Add(probeInterval)
	}
}

// answered updates the budget after a response. refused means that queued requests would get the same response.
func (b *budgetState) answered(o drain.Outcome, now time.Time) (refused bool) {
	if b == nil || !isOfBudget(o.Reason) {
		return false
	}
	b.closedRV, b.probeAt = b.seenRV, now.Add(probeInterval)
	return true
}

// newer compares resource versions. Different versions that cannot be compared are newer.
func newer(a, b string) bool {
	if c, err := resourceversion.CompareResourceVersion(a, b); err == nil {
		return c > 0
	}
	return a != b
}
