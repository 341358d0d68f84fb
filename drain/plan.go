package drain

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Planner makes plans. The zero value is valid. A Planner is safe for concurrent use.
type Planner struct {
	// Rules decide about Pods, in their order; nil means [DefaultRules].
	Rules []Rule
}

// Decision is the verdict about one Pod within a plan.
type Decision struct {
	Node string
	// Pod is the Pod that was passed. It is shared and must not be changed.
	Pod *corev1.Pod
	Verdict
	// Intended is what the rules decided. Action also considers orders, holds and budgets.
	Intended Action
	// Budgets are the budgets that select the Pod, by name.
	Budgets []types.NamespacedName
	// TakesToken means that the eviction counts against its budget.
	TakesToken bool
}

// Plan contains a decision for every Pod. It describes one point in time: make a new one after a change.
type Plan struct {
	// Decisions are grouped by Node in the order of the passed Nodes, and sorted by order, Namespace, name and UID within a Node.
	Decisions []Decision

	judged  []Decision // before budgets and holds
	budgets ledger
}

// Plan decides about all Pods of all given Nodes. Budgets are counted over all of them, earlier Nodes first. Inputs are retained by
// reference and not changed. Nil Pods are ignored.
func (p Planner) Plan(nodes []NodePods, facts Facts) Plan {
	var judged []Decision
	for i := range nodes {
		start := len(judged)
		judged = p.judge(judged, &nodes[i])
		mine := judged[start:]
		sortDecisions(mine)
		applyOrder(mine)
	}
	return Plan{judged: judged, budgets: newLedger(judged, facts.Budgets)}.With(facts)
}

// With returns the plan for other facts about the same Pods and budgets; facts.Budgets is ignored. Most of the work of a plan, applying the
// rules and finding the budgets, is not repeated.
func (p Plan) With(facts Facts) Plan {
	p.Decisions = slices.Clone(p.judged)
	spent := map[types.NamespacedName]int32{}
	maps.Copy(spent, facts.Spent)
	for i := range p.Decisions {
		settle(&p.Decisions[i], p.budgets, &facts, spent)
	}
	return p
}

// Done reports whether no Pod blocks. An empty plan is Done: the caller must check that all Pods were known.
func (p Plan) Done() bool {
	return !slices.ContainsFunc(p.Decisions, func(d Decision) bool { return d.Action != Ignore })
}

// Counts are the numbers of Pods of a plan. Every Pod is in exactly one of Evictable, Terminating, Waiting, Blocked and Ignored.
type Counts struct {
	Total       int
	Evictable   int // can leave now, or the request is in flight
	Terminating int // accepted by the API server or being deleted, not gone yet
	Waiting     int // for a lower order, or completion
	Blocked     int // refused, or held by a budget; see [Plan.Blockers]
	Ignored     int
}

// Counts returns the numbers of Pods by state.
func (p Plan) Counts() Counts {
	var of [groupCompletingLater + 1]int
	for i := range p.Decisions {
		of[group(&p.Decisions[i])]++
	}
	return Counts{
		Total: len(p.Decisions), Evictable: of[groupRequested] + of[groupEvicted] + of[groupDeleted], Terminating: of[groupTerminating],
		Waiting: of[groupCompleting] + of[groupLater] + of[groupCompletingLater],
		Blocked: of[groupBlocked], Ignored: of[groupIgnored],
	}
}

type podGroup uint8

const (
	groupIgnored podGroup = iota
	groupRequested
	groupEvicted // by the plan
	groupDeleted // by the plan
	groupTerminating
	groupBlocked
	groupCompleting
	groupLater
	groupCompletingLater
)

func group(d *Decision) podGroup {
	switch d.Action {
	case Ignore:
		return groupIgnored
	case Evict:
		return groupEvicted
	case Delete:
		return groupDeleted
	case Wait:
		return groupOfWait(d)
	default:
		return groupBlocked
	}
}

func groupOfWait(d *Decision) podGroup {
	switch d.Reason {
	case ReasonTerminating, ReasonEvictionAccepted:
		return groupTerminating
	case ReasonEvictionRequested:
		return groupRequested
	case ReasonLowerOrder:
		return groupLater
	case ReasonWaitCompletedLater:
		return groupCompletingLater
	default:
		if d.Intended == Wait {
			return groupCompleting
		}
		return groupBlocked
	}
}

// PodRef identifies one Pod. A Pod that is created again under the same name has another UID.
type PodRef struct {
	Namespace string
	Name      string
	UID       types.UID
}

// RefOf returns the reference of a Pod.
func RefOf(pod *corev1.Pod) PodRef {
	return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// String returns "namespace/name".
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// NodePods are the Pods of one draining Node. They are shared and must not be changed.
type NodePods struct {
	Node string
	Pods []*corev1.Pod
}

// Hold means that a request for a Pod is in flight, or was refused and is paused. A held Pod waits instead of being evicted, with the
// reason and the message of the hold, and does not count against its budget.
type Hold struct {
	Reason  Reason
	Message string
	// Only is the action that is held; other actions are not affected. Undecided holds all actions.
	Only Action
}

// Facts are the input of a plan other than the Pods. The zero value is valid: no budgets, and no requests in flight.
type Facts struct {
	// Budgets are at least the PodDisruptionBudgets of all Namespaces that have Pods on the Nodes. They are shared and not changed.
	Budgets []*policyv1.PodDisruptionBudget
	// Spent counts, per budget, requested evictions that the status of the budget does not show yet.
	Spent map[types.NamespacedName]int32
	// Held is keyed by Pod UID.
	Held map[types.UID]Hold
}
