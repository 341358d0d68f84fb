package drain

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

func (d *Decision) hold(a Action, r Reason, message string) {
	d.Action, d.Reason, d.Message = a, r, message
}

func (p Planner) judge(into []Decision, node *NodePods) []Decision {
	rules := p.Rules
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

// applyOrder makes Pods of a higher order wait. Other Pods do not wait for finished Pods.
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
		case d.Action.leaves() && d.Reason != ReasonPoweredOff: // a Pod of a powered-off instance waits for no other Pod
			d.hold(Wait, ReasonLowerOrder, "waiting until Pods with a lower drain order are gone")
		case d.Reason == ReasonWaitCompleted:
			d.Reason = ReasonWaitCompletedLater
		}
	}
}

func settle(d *Decision, budgets ledger, facts *Facts, spent map[types.NamespacedName]int32) {
	if !d.Action.leaves() {
		return
	}
	if hold, held := facts.Held[d.Pod.UID]; held && (hold.Only == Undecided || hold.Only == d.Action) {
		d.Budgets = appendNames(d.Budgets, budgets[d.Pod])
		d.hold(Wait, hold.Reason, hold.Message)
		return
	}
	if d.Action == Evict {
		budgets.gate(d, spent)
	}
}
