package drain

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Draft is a plan without what changes all the time: requests in flight, and how much of the budgets is spent. Making it is most of the
// work and requires no lock that guards those. It is immutable and safe for concurrent use.
type Draft struct {
	decisions []Decision
	nodes     []draftedNode
	budgets   ledger
	selectors Selectors
}

type draftedNode struct {
	name       string
	start, end int // of its decisions
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
		draft.nodes = append(draft.nodes, draftedNode{nodes[i].Node, start, len(draft.decisions)})
	}
	draft.budgets, draft.selectors = newLedger(draft.decisions, budgets, known)
	return draft
}

// Plan applies holds, turns and what budgets still allow. It uses the budgets of the Draft, not Facts.Budgets.
func (d Draft) Plan(facts Facts) Plan {
	plan := Plan{Decisions: slices.Clone(d.decisions), budgets: d.budgets, now: facts.Now}
	budgets := d.budgets.counter(facts.Spent)
	decide := func(d *Decision) { settle(d, budgets, &facts) }
	for _, node := range d.nodes {
		mine := plan.Decisions[node.start:node.end]
		if turns := facts.Turns[node.name]; turns != nil {
			turns.settleInTurn(mine, facts.Held, decide)
			continue
		}
		for i := range mine {
			decide(&mine[i])
		}
	}
	return plan
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

// Selectors are the parsed selectors of the PodDisruptionBudgets that may select Pods of a [Draft]. With them, the next Draft does not
// parse unchanged selectors again. The zero value is empty. They are immutable and safe for concurrent use.
type Selectors struct {
	of map[types.NamespacedName]parsedSelector
}

type parsedSelector struct {
	from     *metav1.LabelSelector
	selector labels.Selector // nil when from is invalid
}

// parse returns the selector of a budget and parses it only if it has changed. A cache shares the selector between reads, which makes the
// comparison cheap.
func (s Selectors) parse(name types.NamespacedName, from *metav1.LabelSelector) parsedSelector {
	if known, found := s.of[name]; found && (known.from == from || reflect.DeepEqual(known.from, from)) {
		return known
	}
	parsed := parsedSelector{from: from}
	if selector, err := metav1.LabelSelectorAsSelector(from); err == nil { // the API server lets an invalid one match nothing
		parsed.selector = selector
	}
	return parsed
}

func (p parsedSelector) among(pods []*corev1.Pod) []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range pods {
		if p.selector != nil && p.selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, pod)
		}
	}
	return found
}

// podIndex finds the Pods that a selector may select without parsing the selector. In a Namespace with thousands of budgets, few of them
// select Pods of one Node.
type podIndex struct {
	in      map[string][]*corev1.Pod // by namespace
	labeled map[podLabel][]*corev1.Pod
}

type podLabel struct{ namespace, key, value string }

// indexPods indexes the Pods that the rules evict or delete, by the labels that budgets ask for.
func indexPods(ds []Decision, budgets []*policyv1.PodDisruptionBudget) podIndex {
	keys := map[string]bool{}
	for _, pdb := range budgets {
		if pdb.Spec.Selector == nil {
			continue
		}
		for key := range pdb.Spec.Selector.MatchLabels {
			keys[key] = true
		}
	}
	index := podIndex{map[string][]*corev1.Pod{}, map[podLabel][]*corev1.Pod{}}
	for i := range ds {
		pod := ds[i].Pod
		if ds[i].Intended != Evict && ds[i].Intended != Delete {
			continue
		}
		index.in[pod.Namespace] = append(index.in[pod.Namespace], pod)
		for key, value := range pod.Labels {
			if keys[key] {
				label := podLabel{pod.Namespace, key, value}
				index.labeled[label] = append(index.labeled[label], pod)
			}
		}
	}
	return index
}

// fitting returns the Pods in the Namespace of the budget with one of the labels that it asks for: the label that the fewest Pods have. A
// budget without a selector selects no Pods.
func (x podIndex) fitting(pdb *policyv1.PodDisruptionBudget) []*corev1.Pod {
	if pdb.Spec.Selector == nil {
		return nil
	}
	fewest := x.in[pdb.Namespace]
	for key, value := range pdb.Spec.Selector.MatchLabels {
		if pods := x.labeled[podLabel{pdb.Namespace, key, value}]; len(pods) < len(fewest) {
			fewest = pods
		}
	}
	return fewest
}
