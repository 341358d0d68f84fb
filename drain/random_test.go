package drain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// randomRule returns a rule that does anything a rule may do, and writes down what it returned.
func randomRule(random *rand.Rand, said *[]Verdict, failed *[]error) Rule {
	builtin := []Rule{
		ignoreMirrorPods, ignoreDaemonSetPods, waitForTerminating, evictFinished, evictRest, waitCompleted,
		OneAtATimeWithVolumes,
		orderInText, setOrder(int32(random.Uint32())),
		drainLabel,
		rulesOf(drainRuleFor("r", behaviorSkip, drainRuleEntry{Selector: typo()})).Rule(read),
	}
	inner := builtin[random.IntN(len(builtin))]
	actions := []Action{Undecided, Evict, Delete, Wait, Ignore, Deny, "Later"}
	made := Verdict{Action: actions[random.IntN(len(actions))], Order: int32(random.Uint32())}
	if random.IntN(2) == 0 {
		made.Reason = "Own"
	}
	switch random.IntN(4) {
	case 0:
		inner = func(*corev1.Pod, Verdict) (Verdict, error) { return made, nil }
	case 1:
		inner = func(*corev1.Pod, Verdict) (Verdict, error) { return made, errors.New("lookup failed") }
	}
	return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
		v, err := inner(pod, prev)
		*said, *failed = append(*said, v), append(*failed, err)
		return v, err
	}
}

func randomPod(random *rand.Rand, i int) *corev1.Pod {
	options := []podOption{
		terminating, mirror, unready, ownedBy("apps/v1", "DaemonSet"), ownedBy("apps/v1", "ReplicaSet"),
		inPhase(corev1.PodSucceeded), inPhase(corev1.PodFailed), inPhase(corev1.PodPending), ofPriority(2000001000),
		ofPriority(int32(random.Uint32())), ofPriority(1000), annotated("order", "7"), annotated("order", "seven"),
		labeled("cluster.x-k8s.io/drain", "skip"), labeled("cluster.x-k8s.io/drain", "wait-completed"),
		func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} },
		func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(random.IntN(100))) },
	}
	var chosen []podOption
	for range random.IntN(4) {
		chosen = append(chosen, options[random.IntN(len(options))])
	}
	return newPod(fmt.Sprintf("p%03d", i), chosen...)
}

// TestRandomRules tries many lists: the first error or denial ends the fold, no rule is asked after
// it, and every pod has an action and a reason.
func TestRandomRules(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 5))
		var said []Verdict
		var failed []error
		var rules []Rule
		for range random.IntN(8) {
			rules = append(rules, randomRule(random, &said, &failed))
		}
		pod := randomPod(random, 0)
		before := pod.DeepCopy()
		got := Decide(pod, rules)
		require.Equal(t, before, pod, "seed %d: the pod was changed", seed)
		checkFold(t, seed, got, said, failed, len(rules))
	}
}

func checkFold(t *testing.T, seed uint64, got Verdict, said []Verdict, failed []error, rules int) {
	t.Helper()
	if !decided(got) {
		t.Fatalf("seed %d: no action or no reason: %+v", seed, got)
	}
	for i := range said {
		ends := failed[i] != nil || said[i].Action == Deny
		if ends && (got.Action != Deny || i != len(said)-1) {
			t.Fatalf("seed %d: rule %d of %d ended it with %+v, %v; got %+v", seed, i, len(said), said[i], failed[i], got)
		}
		if failed[i] != nil && got.Reason != ReasonRuleFailed {
			t.Fatalf("seed %d: an error was hidden: %+v", seed, got)
		}
	}
	if n := len(said); got.Action != Deny && (n == 0 || said[n-1].Action != got.Action || n != rules) {
		t.Fatalf("seed %d: the last rule said %+v, got %+v", seed, said, got)
	}
}

func decided(v Verdict) bool { return v.Action != Undecided && v.Action != "Later" && v.Reason != "" }

func randomBudget(random *rand.Rand, i int) *policyv1.PodDisruptionBudget {
	allowed, desired := int32(random.IntN(4)), int32(random.IntN(4))
	options := []budgetOption{healthy(desired+int32(random.IntN(6)), desired, desired+allowed)}
	if random.IntN(3) == 0 {
		options = append(options, limits("2", ""))
	}
	if random.IntN(5) == 0 {
		options = append(options, unobserved)
	}
	return newBudget(fmt.Sprintf("b%d", i), allowed, options...)
}

// TestRandomPlans looks at all that plans have about random pods, rules and budgets.
func TestRandomPlans(t *testing.T) {
	sets := [][]Rule{
		nil, ClusterAPIRules(nil, nil), with(OneAtATimeWithVolumes), with(orderInText),
		{ignoreMirrorPods, ignoreDaemonSetPods, drainLabel, evictRest},
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 6))
		var nodes []NodePods
		for n := range 1 + random.IntN(3) {
			node := NodePods{Node: fmt.Sprintf("n%d", n)}
			for i := range random.IntN(12) {
				pod := randomPod(random, 100*n+i)
				pod.Spec.NodeName = node.Node
				node.Pods = append(node.Pods, pod)
			}
			nodes = append(nodes, node)
		}
		var budgets, before []*policyv1.PodDisruptionBudget
		for i := range random.IntN(3) {
			budgets = append(budgets, randomBudget(random, i))
			before = append(before, budgets[i].DeepCopy())
		}
		planner, facts := Planner{Rules: sets[random.IntN(len(sets))]}, Facts{Budgets: budgets}
		plan := planner.Plan(nodes, facts)
		require.Equal(t, before, budgets, "a budget was changed")
		checkPlan(t, seed, plan, budgets)
		for _, node := range nodes {
			random.Shuffle(len(node.Pods), func(i, j int) { node.Pods[i], node.Pods[j] = node.Pods[j], node.Pods[i] })
		}
		random.Shuffle(len(budgets), func(i, j int) { budgets[i], budgets[j] = budgets[j], budgets[i] })
		text := func(p Plan) string {
			return fmt.Sprint(p.Permanent(), p.Warnings(), p.Summary(), p.Blockers(), lines(p))
		}
		require.Equal(t, text(plan), text(planner.Plan(nodes, facts)), "seed %d: the order of the input shows", seed)
	}
}

func checkPlan(t *testing.T, seed uint64, plan Plan, budgets []*policyv1.PodDisruptionBudget) {
	t.Helper()
	taken := map[types.NamespacedName]int32{}
	lowest := map[string]int32{}
	for _, d := range plan.Decisions {
		if !decided(d.Verdict) || d.Intended == Undecided || d.Action == Evict && d.Intended != Evict {
			t.Fatalf("seed %d: no action or reason, or more than the rules want: %+v", seed, d)
		}
		if d.TakesToken {
			taken[d.Budgets[0]]++
		}
		if d.Action == Ignore || finished(d.Pod) {
			continue
		}
		if _, known := lowest[d.Node]; !known {
			lowest[d.Node] = d.Order
		}
		if first := lowest[d.Node]; d.Action == Evict && d.Order > first {
			t.Fatalf("seed %d: evicts order %d while order %d is there", seed, d.Order, first)
		}
	}
	for _, b := range budgets {
		name := types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
		if taken[name] > b.Status.DisruptionsAllowed {
			t.Fatalf("seed %d: evicts %d of budget %s that allows %d", seed, taken[name], name, b.Status.DisruptionsAllowed)
		}
	}
}

// someSelector draws one; some are nil, empty or invalid.
func someSelector(rng *rand.Rand) *metav1.LabelSelector {
	value := func() string { return []string{"1", "2", "3", "not a label value"}[rng.IntN(4)] }
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, key := range []string{"a", "b", "c"} {
		switch rng.IntN(6) {
		case 0:
			s.MatchLabels[key] = value()
		case 1:
			operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
				"Unknown"}
			e := metav1.LabelSelectorRequirement{Key: key, Operator: operators[rng.IntN(4)]}
			if e.Operator != metav1.LabelSelectorOpExists {
				e.Values = []string{value()}
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
		case 2:
			if rng.IntN(8) == 0 {
				return nil
			}
		}
	}
	return s
}

// The API server asks every budget of the namespace. What this package leaves out must make no difference.
func TestPlanFindsBudgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	namespaces := []string{"default", "other"}
	for round := range 200 {
		node := NodePods{Node: testNode}
		for i := range 12 {
			p := newPod(fmt.Sprintf("p%02d", i))
			p.Namespace, p.Labels = namespaces[rng.IntN(2)], map[string]string{}
			for _, key := range []string{"a", "b", "c"} {
				if rng.IntN(3) > 0 {
					p.Labels[key] = fmt.Sprint(1 + rng.IntN(3))
				}
			}
			node.Pods = append(node.Pods, p)
		}
		var budgets []*policyv1.PodDisruptionBudget
		for i := range 10 {
			pdb := newBudget(fmt.Sprintf("b%02d", i), 1, selecting(someSelector(rng)))
			pdb.Namespace = namespaces[rng.IntN(2)]
			budgets = append(budgets, pdb)
		}
		rng.Shuffle(len(budgets), func(i, j int) { budgets[i], budgets[j] = budgets[j], budgets[i] })
		node.Pods = append(node.Pods, node.Pods[0]) // listed twice
		for _, d := range (Planner{}).Plan([]NodePods{node}, Facts{Budgets: budgets}).Decisions {
			if want := budgetsByServer(d.Pod, budgets); !slices.Equal(want, d.Budgets) {
				t.Fatalf("round %d: pod with %v: want %v, got %v", round, d.Pod.Labels, want, d.Budgets)
			}
		}
	}
}

func budgetsByServer(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) []types.NamespacedName {
	var names []types.NamespacedName
	for _, pdb := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err == nil && pdb.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, types.NamespacedName{Namespace: pdb.Namespace, Name: pdb.Name})
		}
	}
	slices.SortFunc(names, compareKeys)
	return names
}
