package drain

import (
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// benchmarkFacts are 250 pods of one Node and 50 budgets of their one namespace, which is the worst spread there is.
func benchmarkFacts() ([]NodePods, Facts) {
	node := NodePods{Node: testNode}
	for i := range 250 {
		app := fmt.Sprintf("app-%02d", i%50)
		node.Pods = append(node.Pods, newPod(fmt.Sprintf("p%03d", i), labeled("app", app), ofPriority(int32(i%3)*1000), withEmptyDir))
	}
	var budgets []*policyv1.PodDisruptionBudget
	for i := range 50 {
		app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%02d", i)}}
		budgets = append(budgets, newBudget(fmt.Sprintf("b%02d", i), int32(i%3), selecting(app)))
	}
	return []NodePods{node}, Facts{Budgets: budgets}
}

func BenchmarkPlan(b *testing.B) {
	nodes, facts := benchmarkFacts()
	machineRules := rulesOf(
		drainRuleFor("a", behaviorSkip, drainRuleEntry{Selector: labelsAre("app", "none")}),
		drainRuleFor("b", behaviorDrain, drainRuleEntry{Selector: labelsAre("app", "app-01"), NamespaceSelector: labelsAre("team", "web")}),
	).For(DrainedMachine{Namespace: "fleet"})
	for name, rules := range map[string][]Rule{
		"default":    nil,
		"orders":     with(orderInText),
		"clusterapi": ClusterAPIRules(machineRules, read),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if plan := (Planner{Rules: rules}).Plan(nodes, facts); len(plan.Decisions) != 250 {
					b.Fatal("pods are missing")
				}
			}
		})
	}
}

// BenchmarkExplain is what a preview asks for beyond the plan.
func BenchmarkExplain(b *testing.B) {
	nodes, facts := benchmarkFacts()
	plan := Planner{}.Plan(nodes, facts)
	b.ReportAllocs()
	for b.Loop() {
		if len(plan.Warnings()) == 0 || len(plan.Permanent()) != 0 {
			b.Fatal("the plan explains something else")
		}
	}
}
