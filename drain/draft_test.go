package drain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

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
func TestPlan_FindsTheBudgetsThatTheServerFinds(t *testing.T) {
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

func TestPlan_WithOtherFacts(t *testing.T) {
	nodes := []NodePods{{Node: testNode, Pods: []*corev1.Pod{newPod("a"), newPod("b")}}}
	plan := Planner{}.Plan(nodes, Facts{Budgets: []*policyv1.PodDisruptionBudget{newBudget("pdb", 1)}})
	name := types.NamespacedName{Namespace: "default", Name: "pdb"}
	facts := []Facts{{}, {Spent: map[types.NamespacedName]int32{name: 1}}, {Held: map[types.UID]Hold{"uid-a": {Reason: ReasonConflict}}}}
	want := [][]Reason{
		{ReasonEvictable, ReasonBudgetExhausted}, {ReasonBudgetExhausted, ReasonBudgetExhausted}, {ReasonConflict, ReasonEvictable},
	}
	for range 2 {
		for i, f := range facts {
			var got []Reason
			for _, d := range plan.With(f).Decisions {
				got = append(got, d.Reason)
			}
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("plan %d: (-want +got):\n%s", i, diff)
			}
		}
	}
}
