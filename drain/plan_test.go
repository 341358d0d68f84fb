package drain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// planOf is the plan for the pods of one Node.
func planOf(rules []Rule, facts Facts, pods ...*corev1.Pod) Plan {
	return Planner{Rules: rules}.Plan([]NodePods{{Node: testNode, Pods: pods}}, facts)
}

func budgeted(budgets ...*policyv1.PodDisruptionBudget) Facts { return Facts{Budgets: budgets} }

// lines prints a plan in the shortest form that shows what matters: pods without the name of the test's Node.
func lines(p Plan) []string {
	var out []string
	for _, d := range p.Decisions {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%s %s %s %s", d.Node, d.Pod.Name, d.Action, d.Reason), testNode+" "))
	}
	return out
}

var thePDB = types.NamespacedName{Namespace: "default", Name: "pdb"}

func TestPlanOneBudget(t *testing.T) {
	two, ill := []*corev1.Pod{newPod("a"), newPod("b")}, []*corev1.Pod{newPod("a", unready)}
	outside := []*corev1.Pod{newPod("a", inPhase(corev1.PodSucceeded)), newPod("b", inPhase(corev1.PodPending)), newPod("c", terminating)}
	const open, exhausted, stale = "a Evict Evictable, b Evict Evictable", "a Wait BudgetExhausted, b Wait BudgetExhausted",
		"a Wait BudgetStale, b Wait BudgetStale" // 429 until the budget controller has caught up
	everything := newBudget("pdb", 0, selecting(&metav1.LabelSelector{}))
	below := newBudget("pdb", 0, healthy(3, 2, 1))
	allowing := newBudget("pdb", 0, unobserved, healthy(3, 2, 1), unhealthyPolicy(policyv1.AlwaysAllow))
	for name, tc := range map[string]struct {
		pods   []*corev1.Pod
		budget *policyv1.PodDisruptionBudget
		spent  int32
		want   string
	}{
		"only as many go as it allows":                  {two, newBudget("pdb", 1), 0, "a Evict Evictable, b Wait BudgetExhausted"},
		"evictions that its status does not show count": {two, newBudget("pdb", 1), 1, exhausted},
		"a status older than the spec allows nothing":   {two, newBudget("pdb", 2, unobserved), 0, stale},
		"an empty selector matches everything":          {two, everything, 0, exhausted},
		"a negative count allows nothing":               {two, newBudget("pdb", -1), 0, exhausted},
		"pods outside of budgets": {outside, newBudget("pdb", 0), 0,
			"a Evict Finished, b Evict Evictable, c Wait Terminating"},
		"an unready pod of a healthy application needs no token": {append(ill, newPod("b")), newBudget("pdb", 1), 0, open},
		"an unready pod of another one waits":                    {ill, below, 0, "a Wait BudgetExhausted"},
		"an unready pod goes under AlwaysAllow":                  {ill, allowing, 0, "a Evict Evictable"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := budgeted(tc.budget)
			facts.Spent = map[types.NamespacedName]int32{thePDB: tc.spent}
			require.Equal(t, tc.want, strings.Join(lines(planOf(nil, facts, tc.pods...)), ", "))
		})
	}
}

func TestPlanNeverAllows(t *testing.T) {
	for name, tc := range map[string]struct {
		budget *policyv1.PodDisruptionBudget
		want   Reason
	}{
		"maxUnavailable 0":                      {newBudget("pdb", 0, limits("", "0"), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"maxUnavailable 0%":                     {newBudget("pdb", 0, limits("", "0%"), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"minAvailable 100%":                     {newBudget("pdb", 0, limits("100%", ""), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"minAvailable 90%":                      {newBudget("pdb", 0, limits("90%", ""), healthy(3, 3, 3)), ReasonBudgetNeverAllows},
		"minAvailable 5":                        {newBudget("pdb", 0, limits("5", ""), healthy(3, 5, 3)), ReasonBudgetNeverAllows},
		"minAvailable that more health opens":   {newBudget("pdb", 0, limits("2", ""), healthy(3, 2, 2)), ReasonBudgetExhausted},
		"maxUnavailable 1% that rounds up":      {newBudget("pdb", 0, limits("", "1%"), healthy(3, 2, 2)), ReasonBudgetExhausted},
		"no pods counted yet":                   {newBudget("pdb", 0, limits("1", ""), healthy(0, 1, 0)), ReasonBudgetExhausted},
		"an unobserved spec proves nothing":     {newBudget("pdb", 0, limits("", "0"), healthy(3, 3, 3), unobserved), ReasonBudgetStale},
		"counts of a failed sync prove nothing": {newBudget("pdb", 0, limits("2", ""), healthy(2, 2, 2), syncFailure), ReasonBudgetExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planOf(nil, budgeted(tc.budget), newPod("a"))
			blockers := plan.Blockers()
			require.Len(t, blockers, 1)
			require.Equal(t, tc.want, blockers[0].Reason)
			require.Equal(t, []types.NamespacedName{thePDB}, blockers[0].Budgets)
			if got := plan.Permanent(); tc.want == ReasonBudgetNeverAllows {
				require.Len(t, got, 1)
				require.Equal(t, openBudget, got[0].Remedy)
				require.Contains(t, got[0].Message, "with "+name+" can never allow one while it covers 3 pods; "+openBudget)
			} else {
				require.Empty(t, got)
			}
		})
	}
}

func TestPlanTwoBudgets(t *testing.T) {
	plan := planOf(nil, budgeted(newBudget("two", 3), newBudget("one", 3)), newPod("a"), newPod("z", inPhase(corev1.PodPending)))
	require.Equal(t, []string{"a Deny MultipleBudgets", "z Evict Evictable"}, lines(plan))
	require.Equal(t, []Blocker{{
		Node: testNode, Reason: ReasonMultipleBudgets, Count: 1,
		Budgets: []types.NamespacedName{{Namespace: "default", Name: "one"}, {Namespace: "default", Name: "two"}},
		Pods:    []PodRef{RefOf(newPod("a"))},
		Message: "more than one disruption budget selects the Pod (one, two), which the eviction API does not support; " +
			"let only one of them select it",
	}}, plan.Blockers())
}

func TestPlanManyNodes(t *testing.T) {
	require.Equal(t, []string{"n2 b Evict Evictable", "n2 c Evict Evictable", "n1 a Wait BudgetExhausted", "n1 elsewhere Ignore OtherNode"},
		lines(Planner{}.Plan([]NodePods{
			{Node: "n2", Pods: []*corev1.Pod{newPod("c", onNode("n2")), newPod("b", onNode("n2"))}},
			{Node: "n1", Pods: []*corev1.Pod{newPod("a", onNode("n1")), nil, newPod("elsewhere", onNode("n3"))}},
		}, budgeted(newBudget("pdb", 2)))))
}

func TestPlanOrder(t *testing.T) {
	failed := inPhase(corev1.PodFailed)
	rules := with(named(setOrder(2), "a"), named(setOrder(1), "b", "c"), named(setOrder(-1), "done"), named(setOrder(-2), "ds"),
		named(setOrder(9), "over"))
	require.Equal(t, []string{
		"ds Ignore DaemonSetPod", "done Evict Finished", "b Wait Terminating", "c Evict Evictable", "a Wait LowerOrder", "over Evict Finished",
	}, lines(planOf(rules, Facts{}, newPod("a"), newPod("b", terminating), newPod("c"), newPod("done", failed),
		newPod("ds", ownedBy("apps/v1", "DaemonSet")), newPod("over", failed))))
}

func TestPlanHeld(t *testing.T) {
	facts := budgeted(newBudget("pdb", 1))
	facts.Held = map[types.UID]Hold{"uid-a": {Reason: ReasonForbidden, Message: "no"}, "uid-c": {Reason: ReasonEvictionAccepted}}
	plan := planOf(nil, facts, newPod("a"), newPod("b"), newPod("c", terminating))
	require.Equal(t, []string{"a Wait Forbidden", "b Evict Evictable", "c Wait Terminating"}, lines(plan), "and take no token")
	require.Equal(t, Counts{Total: 3, Evictable: 1, Terminating: 1, Blocked: 1}, plan.Counts())
}

func TestPlanWith(t *testing.T) {
	plan := planOf(nil, budgeted(newBudget("pdb", 1)), newPod("a"), newPod("b"))
	for range 2 {
		for want, facts := range map[string]*Facts{
			"[a Evict Evictable b Wait BudgetExhausted]":      {},
			"[a Wait BudgetExhausted b Wait BudgetExhausted]": {Spent: map[types.NamespacedName]int32{thePDB: 1}},
			"[a Wait Conflict b Evict Evictable]":             {Held: map[types.UID]Hold{"uid-a": {Reason: ReasonConflict}}},
		} {
			require.Equal(t, want, fmt.Sprint(lines(plan.With(*facts))))
		}
	}
}

func TestPlanDone(t *testing.T) {
	ds := newPod("ds", ownedBy("apps/v1", "DaemonSet"))
	done := planOf(nil, Facts{}, ds, newPod("m", mirror))
	require.True(t, done.Done())
	require.Equal(t, 2, done.Counts().Ignored)
	require.Empty(t, done.Summary())
	for _, pod := range []*corev1.Pod{newPod("a"), newPod("a", terminating), newPod("a", inPhase(corev1.PodFailed))} {
		p := planOf(nil, Facts{}, ds, pod)
		require.False(t, p.Done())
		require.Equal(t, 1, p.Counts().Ignored)
		require.NotEmpty(t, p.Summary())
	}
}
