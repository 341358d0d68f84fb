package drain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// randomRule returns a rule that does anything a rule may do, and writes down what it returned.
func randomRule(random *rand.Rand, said *[]Verdict, failed *[]error) Rule {
	builtin := []Rule{
		ignoreMirrorPods, ignoreDaemonSetPods, waitForTerminating, evictFinished, evictRest, SkipSelected(labels.Everything()), waitCompleted,
		OrderByPriority, OneAtATimeWithVolumes, DeleteBy(noon, func() time.Time { return noon }),
		orderInText, setOrder(int32(random.Uint32())),
		drainLabel,
		rulesOf(drainRuleFor("r", behaviorSkip, drainRuleEntry{Selector: typo()})).Rule(read),
	}
	inner := builtin[random.IntN(len(builtin))]
	made := Verdict{Action: Action(random.IntN(int(Deny) + 2)), Order: int32(random.Uint32())}
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

// TestDecide_NoRuleListMakesAFailureGoAway tries many lists: the first error or denial ends the fold, no rule is asked after
// it, and every pod has an action and a reason.
func TestDecide_NoRuleListMakesAFailureGoAway(t *testing.T) {
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
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Fatalf("seed %d: the pod was changed (-before +after):\n%s", seed, diff)
		}
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

func decided(v Verdict) bool { return v.Action != Undecided && v.Action <= Deny && v.Reason != "" }

func TestDecide_ANilRuleDenies(t *testing.T) {
	got := Decide(newPod("p"), []Rule{evictRest, nil})
	if diff := cmp.Diff(Verdict{Action: Deny, Reason: ReasonRuleFailed, Message: "drain rule 1 is nil"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPlan_RandomPlansKeepTheirPromises looks at everything that a plan says about random pods, rules and budgets.
func TestPlan_RandomPlansKeepTheirPromises(t *testing.T) {
	sets := [][]Rule{
		nil, ClusterAPIRules(nil, nil), with(OrderByPriority), with(orderInText),
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
		var budgets []*policyv1.PodDisruptionBudget
		for i := range random.IntN(3) {
			allowed := int32(random.IntN(4))
			desired := int32(random.IntN(4))
			options := []budgetOption{healthy(desired+int32(random.IntN(6)), desired, desired+allowed)}
			if random.IntN(3) == 0 {
				options = append(options, limits("2", ""))
			}
			if random.IntN(5) == 0 {
				options = append(options, unobserved)
			}
			budgets = append(budgets, newBudget(fmt.Sprintf("b%d", i), allowed, options...))
		}
		planner := Planner{Rules: sets[random.IntN(len(sets))]}
		facts := Facts{Budgets: budgets}
		plan := planner.Plan(nodes, facts)
		checkPlan(t, seed, plan, budgets)
		want := fmt.Sprint(plan.Permanent(0), plan.Warnings(0), plan.Summary(0), plan.Blockers(0), lines(plan))
		for _, node := range nodes {
			random.Shuffle(len(node.Pods), func(i, j int) { node.Pods[i], node.Pods[j] = node.Pods[j], node.Pods[i] })
		}
		random.Shuffle(len(budgets), func(i, j int) { budgets[i], budgets[j] = budgets[j], budgets[i] })
		again := planner.Plan(nodes, facts)
		got := fmt.Sprint(again.Permanent(0), again.Warnings(0), again.Summary(0), again.Blockers(0), lines(again))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: the order of the input shows (-want +got):\n%s", seed, diff)
		}
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
