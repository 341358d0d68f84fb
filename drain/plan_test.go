package drain

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lines prints a plan in the shortest form that shows what matters.
func lines(p Plan) []string {
	var out []string
	for _, d := range p.Decisions {
		out = append(out, fmt.Sprintf("%s %s %s %s", d.Node, d.Pod.Name, d.Action, d.Reason))
	}
	return out
}

func TestPlan_OneBudget(t *testing.T) {
	two := []*corev1.Pod{newPod("a"), newPod("b")}
	cases := map[string]struct {
		reason string
		pods   []*corev1.Pod
		budget *policyv1.PodDisruptionBudget
		spent  int32
		want   []string
	}{
		"only as many go as the budget allows": {
			pods: two, budget: newBudget("pdb", 1),
			want: []string{"node-a a Evict Evictable", "node-a b Wait BudgetExhausted"},
		},
		"evictions that do not show in the status yet count": {
			pods: two, budget: newBudget("pdb", 1), spent: 1,
			want: []string{"node-a a Wait BudgetExhausted", "node-a b Wait BudgetExhausted"},
		},
		"a status older than the spec allows nothing": {
			reason: "the API server answers 429 until the budget controller has caught up",
			pods:   two, budget: newBudget("pdb", 2, unobserved),
			want: []string{"node-a a Wait BudgetStale", "node-a b Wait BudgetStale"},
		},
		"a nil selector matches nothing": {
			pods: two, budget: newBudget("pdb", 0, selecting(nil)),
			want: []string{"node-a a Evict Evictable", "node-a b Evict Evictable"},
		},
		"an empty selector matches everything": {
			pods: two, budget: newBudget("pdb", 0, selecting(&metav1.LabelSelector{})),
			want: []string{"node-a a Wait BudgetExhausted", "node-a b Wait BudgetExhausted"},
		},
		"an invalid selector matches nothing, as in the API server": {
			pods: two, budget: newBudget("pdb", 0, selecting(&metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Nonsense"}},
			})),
			want: []string{"node-a a Evict Evictable", "node-a b Evict Evictable"},
		},
		"a budget of another namespace does not count": {
			pods: two, budget: newBudget("pdb", 0, func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }),
			want: []string{"node-a a Evict Evictable", "node-a b Evict Evictable"},
		},
		"finished, pending and terminating pods are outside budgets": {
			pods: []*corev1.Pod{
				newPod("a", inPhase(corev1.PodSucceeded)), newPod("b", inPhase(corev1.PodPending)), newPod("c", terminating),
			},
			budget: newBudget("pdb", 0),
			want:   []string{"node-a a Evict Finished", "node-a b Evict Evictable", "node-a c Wait Terminating"},
		},
		"an unready pod goes without a token while the application is healthy": {
			pods: []*corev1.Pod{newPod("a", unready), newPod("b")}, budget: newBudget("pdb", 1),
			want: []string{"node-a a Evict Evictable", "node-a b Evict Evictable"},
		},
		"an unready pod waits while the application is below its budget": {
			pods: []*corev1.Pod{newPod("a", unready)}, budget: newBudget("pdb", 0, healthy(3, 2, 1)),
			want: []string{"node-a a Wait BudgetExhausted"},
		},
		"an unready pod always goes under AlwaysAllow, even when the status is stale": {
			pods:   []*corev1.Pod{newPod("a", unready)},
			budget: newBudget("pdb", 0, unobserved, healthy(3, 2, 1), unhealthyPolicy(policyv1.AlwaysAllow)),
			want:   []string{"node-a a Evict Evictable"},
		},
		"a negative count allows nothing": {
			pods: two[:1], budget: newBudget("pdb", -1), want: []string{"node-a a Wait BudgetExhausted"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Planner{}.Plan([]NodePods{{Node: testNode, Pods: tc.pods}}, Facts{
				Budgets: []*policyv1.PodDisruptionBudget{tc.budget},
				Spent:   map[types.NamespacedName]int32{{Namespace: "default", Name: "pdb"}: tc.spent},
			})
			if diff := cmp.Diff(tc.want, lines(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPlan_BudgetsThatCanNeverAllow(t *testing.T) {
	cases := map[string]struct {
		budget *policyv1.PodDisruptionBudget
		want   Reason
	}{
		"maxUnavailable 0":                      {newBudget("b", 0, limits("", "0"), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"maxUnavailable 0%":                     {newBudget("b", 0, limits("", "0%"), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"minAvailable 100%":                     {newBudget("b", 0, limits("100%", ""), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"minAvailable that rounds up to all":    {newBudget("b", 0, limits("90%", ""), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"minAvailable above the pods":           {newBudget("b", 0, limits("5", ""), healthy(3, 5, 3)), ReasonBudgetNeverAllows},
		"minAvailable that more health opens":   {newBudget("b", 0, limits("2", ""), healthy(3, 2, 2)), ReasonBudgetExhausted},
		"maxUnavailable 1% that rounds up":      {newBudget("b", 0, limits("", "1%"), healthy(3, 2, 2)), ReasonBudgetExhausted},
		"no pods counted yet":                   {newBudget("b", 0, limits("1", ""), healthy(0, 1, 0)), ReasonBudgetExhausted},
		"an unobserved spec proves nothing":     {newBudget("b", 0, limits("", "0"), healthy(3, 3, 3), unobserved), ReasonBudgetStale},
		"counts of a failed sync prove nothing": {newBudget("b", 0, limits("2", ""), healthy(2, 2, 2), syncFailure), ReasonBudgetExhausted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := Planner{}.Plan([]NodePods{{Node: testNode, Pods: []*corev1.Pod{newPod("a")}}},
				Facts{Budgets: []*policyv1.PodDisruptionBudget{tc.budget}})
			blockers := plan.Blockers(0)
			if len(blockers) != 1 || blockers[0].Reason != tc.want {
				t.Fatalf("want one blocker %s, got %+v", tc.want, blockers)
			}
			want := []types.NamespacedName{{Namespace: "default", Name: "b"}}
			if diff := cmp.Diff(want, blockers[0].Budgets); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_TwoBudgetsOnOnePodAreNamed(t *testing.T) {
	pods := []*corev1.Pod{newPod("a"), newPod("z", inPhase(corev1.PodPending))}
	plan := Planner{}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{Budgets: []*policyv1.PodDisruptionBudget{
		newBudget("two", 3), newBudget("one", 3),
	}})
	if diff := cmp.Diff([]string{"node-a a Deny MultipleBudgets", "node-a z Evict Evictable"}, lines(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []Blocker{{
		Node: testNode, Reason: ReasonMultipleBudgets, Count: 1,
		Budgets: []types.NamespacedName{{Namespace: "default", Name: "one"}, {Namespace: "default", Name: "two"}},
		Pods:    []PodRef{RefOf(pods[0])},
		Message: "more than one disruption budget selects the Pod (one, two), which the eviction API does not support; " +
			"let only one of them select it",
	}}
	if diff := cmp.Diff(want, plan.Blockers(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlan_BudgetsAreSharedByAllNodes(t *testing.T) {
	plan := Planner{}.Plan([]NodePods{
		{Node: "n2", Pods: []*corev1.Pod{newPod("c", onNode("n2")), newPod("b", onNode("n2"))}},
		{Node: "n1", Pods: []*corev1.Pod{newPod("a", onNode("n1")), nil, newPod("elsewhere", onNode("n3"))}},
	}, Facts{Budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 2)}})
	want := []string{
		"n2 b Evict Evictable", "n2 c Evict Evictable",
		"n1 a Wait BudgetExhausted", "n1 elsewhere Ignore OtherNode",
	}
	if diff := cmp.Diff(want, lines(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlan_HigherOrdersWaitUntilLowerOnesAreGone(t *testing.T) {
	byName := func(orders map[string]int32) Rule {
		return func(pod *corev1.Pod, prev Verdict) (Verdict, error) {
			prev.Order = orders[pod.Name]
			return prev, nil
		}
	}
	rules := append([]Rule{byName(map[string]int32{"a": 2, "b": 1, "c": 1, "done": -1, "ds": -2})}, DefaultRules()...)
	pods := []*corev1.Pod{
		newPod("a"), newPod("b", terminating), newPod("c"),
		newPod("done", inPhase(corev1.PodFailed)), newPod("ds", ownedBy("apps/v1", "DaemonSet")),
	}
	plan := Planner{Rules: rules}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{})
	want := []string{
		"node-a ds Ignore DaemonSetPod", "node-a done Evict Finished",
		"node-a b Wait Terminating", "node-a c Evict Evictable", "node-a a Wait LowerOrder",
	}
	if diff := cmp.Diff(want, lines(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlan_HeldPodsWaitAndTakeNoToken(t *testing.T) {
	plan := Planner{}.Plan([]NodePods{{Node: testNode, Pods: []*corev1.Pod{newPod("a"), newPod("b"), newPod("c", terminating)}}},
		Facts{
			Budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 1)},
			Held: map[types.UID]Hold{
				"uid-a": {Reason: ReasonForbidden, Message: "no"}, "uid-c": {Reason: ReasonEvictionAccepted},
			},
		})
	want := []string{"node-a a Wait Forbidden", "node-a b Evict Evictable", "node-a c Wait Terminating"}
	if diff := cmp.Diff(want, lines(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Counts{Total: 3, Evictable: 1, Terminating: 1, Blocked: 1}, plan.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestPlan_DoneOnlyWhenNothingButIgnoredPodsIsLeft(t *testing.T) {
	ds := newPod("ds", ownedBy("apps/v1", "DaemonSet"))
	plan := func(pods ...*corev1.Pod) Plan {
		return Planner{}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{})
	}
	if p := plan(ds, newPod("m", mirror)); !p.Done() || p.Counts().Ignored != 2 || p.Summary(0) != "" {
		t.Errorf("want done, got %v", lines(p))
	}
	for _, pod := range []*corev1.Pod{newPod("a"), newPod("a", terminating), newPod("a", inPhase(corev1.PodFailed))} {
		if p := plan(ds, pod); p.Done() || p.Counts().Ignored != 1 || p.Summary(0) == "" {
			t.Errorf("want not done, got %v", lines(p))
		}
	}
}

func TestPlan_InputOrderDoesNotMatterAndNothingIsChanged(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 40 {
		pods = append(pods, newPod(fmt.Sprintf("p%02d", i)))
	}
	budgets := []*policyv1.PodDisruptionBudget{newBudget("pdb", 7)}
	want := Planner{}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{Budgets: budgets})
	before := pods[3].DeepCopy()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		got := Planner{}.Plan([]NodePods{{Node: testNode, Pods: pods}}, Facts{Budgets: budgets})
		if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if n := got.Counts().Evictable; n != 7 {
			t.Fatalf("want 7 evictable, got %d", n)
		}
	}
	if diff := cmp.Diff(before, want.Decisions[3].Pod); diff != "" {
		t.Errorf("a pod was changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(newBudget("pdb", 7), budgets[0]); diff != "" {
		t.Errorf("a budget was changed (-before +after):\n%s", diff)
	}
}
