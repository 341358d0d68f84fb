package drain

import (
	"cmp"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
)

// Draft is a plan without what changes all the time: requests in flight, and how much of the budgets is spent. Making it is most of the
// work and requires no lock that guards those. It is immutable and safe for concurrent use.
type Draft struct {
	decisions []Decision
	budgets   ledger
	selectors Selectors
}

// Draft applies the rules to all Pods of all given Nodes, and finds the budgets that select them. known comes from an earlier Draft, see
// [Draft.Selectors], or is the zero value. Inputs are kept by reference and not changed. Nil Pods are skipped.
func (p Planner) Draft(nodes []NodePods, budgets []*policyv1.PodDisruptionBudget, known Selectors) Draft {
	var draft Draft
	pods := 0
	for i := range nodes {
		pods += len(nodes[i].Pods)
	}
	draft.decisions = make([]Decision, 0, pods)
	for i := range nodes {
		start := len(draft.decisions)
		draft.decisions = p.judge(draft.decisions, &nodes[i])
		mine := draft.decisions[start:]
		sortDecisions(mine)
		applyOrder(mine)
	}
	draft.budgets, draft.selectors = newLedger(draft.decisions, budgets, known)
	return draft
}

func (d *Decision) hold(a Action, r Reason, message string) {
	d.Action, d.Reason, d.Message = a, r, message
}

func (p Planner) judge(into []Decision, node *NodePods) []Decision {
	rules := p.Rules
	if node.Rules != nil {
		rules = node.Rules
	}
	if rules == nil {
		rules = DefaultRules()
	}
	for _, pod := range node.Pods {
		if pod == nil {
			continue
		}
		d := Decision{Node: node.Node, Pod: pod}
		if pod.Spec.NodeName != node.Node {
			d.hold(Ignore, ReasonOtherNode, "the Pod is bound to another Node")
		} else {
			d.Verdict = Decide(pod, rules)
		}
		d.Intended = d.Action
		into = append(into, d)
	}
	return into
}

func sortDecisions(ds []Decision) {
	slices.SortFunc(ds, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), comparePodRefs(RefOf(a.Pod), RefOf(b.Pod)))
	})
}

// applyOrder lets Pods of a higher order wait. Other Pods do not wait for finished Pods.
func applyOrder(ds []Decision) {
	first, found := int32(0), false
	for i := range ds {
		if ds[i].Action != Ignore && !finished(ds[i].Pod) {
			first, found = ds[i].Order, true
			break
		}
	}
	for i := range ds {
		d := &ds[i]
		if !found || d.Order <= first || finished(d.Pod) {
			continue
		}
		switch {
		case (d.Action == Evict || d.Action == Delete) && !outsideOrders(d):
			d.hold(Wait, ReasonLowerOrder, "waiting until Pods with a lower drain order are gone")
		case d.Reason == ReasonWaitCompleted:
			d.Reason = ReasonWaitCompletedLater
		}
	}
}

// Plan applies holds and what budgets still allow. It uses the budgets of the Draft, not Facts.Budgets.
func (d Draft) Plan(facts Facts) Plan {
	plan := Plan{Decisions: slices.Clone(d.decisions), budgets: d.budgets}
	budgets := d.budgets.counter(facts.Spent)
	for i := range plan.Decisions {
		settle(&plan.Decisions[i], budgets, &facts)
	}
	return plan
}

func settle(d *Decision, budgets counter, facts *Facts) {
	if d.Action != Evict && d.Action != Delete {
		return
	}
	if hold, held := facts.Held[d.Pod.UID]; held && (hold.Only == Undecided || hold.Only == d.Action) {
		d.Budgets = appendNames(d.Budgets, budgets.of[d.Pod])
		d.hold(Wait, hold.Reason, hold.Message)
		return
	}
	if d.Action == Evict {
		budgets.gate(d)
	}
}

// Budgets returns the budgets that select Pods which the rules evict or delete, sorted by namespace and name.
func (d Draft) Budgets() []*policyv1.PodDisruptionBudget {
	budgets := make([]*policyv1.PodDisruptionBudget, 0, len(d.budgets.budgets))
	for _, b := range d.budgets.budgets {
		budgets = append(budgets, b.obj)
	}
	return budgets
}

// Selectors returns the parsed selectors of the Draft, for the next Draft of the same Nodes.
func (d Draft) Selectors() Selectors { return d.selectors }
