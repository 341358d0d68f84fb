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

// budgetState is what the Runner remembers about one PodDisruptionBudget.
type budgetState struct {
	name        types.NamespacedName
	lookedAt    time.Time              // by a Step
	seenRV      string                 // newest resource version that a Step read
	tokens      map[types.UID]*attempt // evictions that count against the budget until its status shows them
	inFlight    int
	closedRV    string    // resource version at which the API server refused
	closedUntil time.Time // acceptances before belong to requests sent before the refusal
	probeAt     time.Time // when to try one Pod although the cached status allows none
}

// observe records the budgets that a Step read. It returns, per budget, the evictions that its status does not show yet.
func (s budgets) observe(read []*policyv1.PodDisruptionBudget, now time.Time) map[types.NamespacedName]int32 {
	spent := map[types.NamespacedName]int32{}
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
		if b.closed() {
			spent[name] = math.MaxInt32
			continue
		}
		for _, a := range b.tokens {
			if a.shownBy(pdb, now) {
				a.releaseToken()
				continue
			}
			spent[name]++
		}
	}
	return spent
}

// forget drops budgets that no Step has read for a while and those that no later drain needs.
func (s budgets) forget(now time.Time, after time.Duration) {
	maps.DeleteFunc(s, func(_ types.NamespacedName, b *budgetState) bool { return b.forgotten(now, after) })
}

// forgotten reports whether no Step has read the budget for a while, so that it is dropped: the budget, or its Namespace, no longer exists,
// or it selects no Pod of a draining Node.
func (b *budgetState) forgotten(now time.Time, after time.Duration) bool {
	for _, a := range b.tokens {
		if a.state != accepted || now.Before(a.retryAt) {
			return false
		}
	}
	return b.inFlight == 0 && !now.Before(b.closedUntil) && now.Sub(b.lookedAt) >= after
}

// admits reports whether one more request may be sent for the budget. A nil budget admits all.
func (b *budgetState) admits() bool {
	return b == nil || b.inFlight < maxInFlightPerBudget
}

// closed reports that the cached status cannot be trusted: the API server refused what this version of it allows. Only probes are sent
// until a newer version is read or the API server accepts a probe.
func (b *budgetState) closed() bool {
	return b.closedRV != "" && b.seenRV == b.closedRV
}

// probe reports whether a Pod is requested now although the status allows none, and schedules the next probe. Only one Pod is requested in
// each interval.
func (b *budgetState) probe(now time.Time) bool {
	due := !b.probeAt.IsZero() && now.Sub(b.probeAt) <= 4*probeInterval // otherwise the budget closed only now, or closed again
	if due && (now.Before(b.probeAt) || b.asked()) {
		return false
	}
	b.probeAt = now.Add(probeInterval)
	return due
}

// asked reports whether a request that counts against the budget is queued or in flight.
func (b *budgetState) asked() bool {
	for _, a := range b.tokens {
		if a.state == queued || a.state == inFlight {
			return true
		}
	}
	return false
}

// answered adapts the requests for the budget to an answer. refused means that queued requests would get the same answer.
func (b *budgetState) answered(o drain.Outcome, now time.Time) (refused bool) {
	if b == nil || o.Reason != drain.ReasonBudgetExhausted && o.Reason != drain.ReasonBudgetStale {
		return false
	}
	b.closedRV, b.closedUntil = b.seenRV, now.Add(probeInterval)
	b.probeAt = b.closedUntil
	return true
}

// newer compares resource versions. Versions that cannot be compared are newer when they differ.
func newer(a, b string) bool {
	if c, err := resourceversion.CompareResourceVersion(a, b); err == nil {
		return c > 0
	}
	return a != b
}
