package drain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Blocker is a group of Pods of one Node that cannot leave for the same reason.
type Blocker struct {
	Node    string
	Reason  Reason
	Budgets []types.NamespacedName // the budgets in the way, sorted; empty when no budget is
	Pods    []PodRef               // the first pods, sorted, as many as were asked for
	Count   int                    // all pods
	// Since is when Pods of the Node were first blocked by this Key. A plan leaves it zero; drain/runner sets it.
	Since   time.Time
	Message string
}

// Key identifies the cause of a blocker: equal keys in two plans are the same cause. It contains the message of a rule, but not that of an
// error, whose text may differ each time.
func (b Blocker) Key() string {
	var s strings.Builder
	s.WriteString(b.Node + "|" + string(b.Reason))
	for _, name := range b.Budgets {
		s.WriteString("|" + name.String())
	}
	if len(b.Budgets) == 0 && !fromError(b.Reason) {
		s.WriteString("|" + b.Message)
	}
	return s.String()
}

// fromError reports that the message of a reason is the text of an error.
func fromError(r Reason) bool {
	switch r {
	case ReasonRuleFailed, ReasonForbidden, ReasonAdmissionDenied, ReasonThrottled, ReasonServerError, ReasonUnknownOutcome,
		ReasonUnauthorized, ReasonInvalid, ReasonEndpointMissing, ReasonConflict:
		return true
	default:
		return false
	}
}

// Blockers groups the blocked Pods by Node, reason and budgets (without a budget: by message), sorted. Each group names at most maxPods
// Pods; 0 or less means 3. Pods that are terminating, requested, or wait for others are not blockers.
func (p Plan) Blockers(maxPods int) []Blocker {
	if maxPods <= 0 {
		maxPods = defaultNames
	}
	groups := blockerGroups{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if group(d) == groupBlocked {
			groups.add(blockerOf(d), d)
		}
	}
	return groups.sorted(maxPods)
}

// blockerOf returns the blocker of a Pod, without the Pod.
func blockerOf(d *Decision) Blocker {
	b := Blocker{Node: d.Node, Reason: d.Reason, Message: d.Message}
	if aboutBudgets(d.Reason) {
		b.Budgets = d.Budgets
	}
	return b
}

// blockerGroups collects Pods by the key of their blocker and, without a budget, its message.
type blockerGroups map[string]*Blocker

func (g blockerGroups) add(b Blocker, d *Decision) {
	key := b.Key()
	if len(b.Budgets) == 0 {
		key += "|" + b.Message
	}
	if g[key] == nil {
		g[key] = &b
	}
	g[key].Pods = append(g[key].Pods, RefOf(d.Pod))
}

func (g blockerGroups) sorted(maxPods int) []Blocker {
	out := make([]Blocker, 0, len(g))
	for _, key := range slices.Sorted(maps.Keys(g)) {
		b := g[key]
		b.Count = len(b.Pods)
		slices.SortFunc(b.Pods, comparePodRefs)
		b.Pods = b.Pods[:min(maxPods, len(b.Pods)):min(maxPods, len(b.Pods))]
		out = append(out, *b)
	}
	return out
}

func aboutBudgets(r Reason) bool {
	switch r {
	case ReasonBudgetExhausted, ReasonBudgetStale, ReasonBudgetNeverAllows, ReasonMultipleBudgets:
		return true
	default:
		return false
	}
}

func comparePodRefs(a, b PodRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}
