package drain_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/drain"
)

func web(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// Before anything is evicted, a plan says what will never go by itself and what is lost.
func ExamplePlan_Permanent() {
	all := intstr.FromString("100%")
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 2, DesiredHealthy: 2, CurrentHealthy: 2},
	}
	cache := web("cache-0")
	cache.Labels = nil
	cache.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	plan := drain.Planner{}.Plan(
		[]drain.NodePods{{Node: "node-1", Pods: []*corev1.Pod{web("web-1"), web("web-2"), cache}}},
		drain.Facts{Budgets: []*policyv1.PodDisruptionBudget{budget}},
	)
	for _, o := range plan.Permanent() {
		fmt.Printf("%s %v, %d pods: %s\n", o.Reason, o.Budgets, o.Count, o.Remedy)
	}
	for _, w := range plan.Warnings() {
		fmt.Println(w.Reason, w.Pods[0], w.Count)
	}
	// Output:
	// BudgetNeverAllows [shop/web], 2 pods: raise maxUnavailable, lower minAvailable or add replicas
	// LocalData shop/cache-0 1
	// Unmanaged shop/cache-0 3
}

// A rule of Cluster API leaves the pods of one team alone.
func ExampleClusterAPIRules() {
	rules := drain.ReadMachineDrainRules([]unstructured.Unstructured{{Object: map[string]any{
		"metadata": map[string]any{"namespace": "fleet", "name": "spare-web"},
		"spec": map[string]any{
			"drain": map[string]any{"behavior": "Skip"},
			"pods":  []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "web"}}}},
		},
	}}}).For(drain.DrainedMachine{Namespace: "fleet"})
	namespaces := func(name string) (map[string]string, bool) {
		labels, known := map[string]map[string]string{"shop": {"team": "web"}}[name]
		return labels, known
	}
	elsewhere := web("api-1")
	elsewhere.Namespace = "unread"
	planner := drain.Planner{Rules: drain.ClusterAPIRules(rules, namespaces)}
	plan := planner.Plan([]drain.NodePods{{Node: "node-1", Pods: []*corev1.Pod{web("web-1"), elsewhere}}}, drain.Facts{})
	for _, d := range plan.Decisions {
		fmt.Println(d.Pod.Name, d.Action, d.Reason)
	}
	// Output:
	// web-1 Ignore Skipped
	// api-1 Deny DrainRuleUnclear
}

func ExamplePlanner_Plan() {
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			DisruptionsAllowed: 1, ExpectedPods: 3, DesiredHealthy: 2, CurrentHealthy: 3,
		},
	}
	plan := drain.Planner{}.Plan(
		[]drain.NodePods{{Node: "node-1", Pods: []*corev1.Pod{web("web-2"), web("web-1")}}},
		drain.Facts{Budgets: []*policyv1.PodDisruptionBudget{budget}},
	)
	for _, d := range plan.Decisions {
		fmt.Println(d.Pod.Name, d.Action, d.Reason)
	}
	fmt.Println(plan.Done())
	// Output:
	// web-1 Evict Evictable
	// web-2 Wait BudgetExhausted
	// false
}

// A policy as data: polite for ten minutes, then deletions with 30 s of grace, and pods of a Node that does not answer get one second.
func ExamplePolicy_Rule() {
	policy := drain.Policy{GracePeriod: new(int64(30)), DeleteAfter: 10 * time.Minute, SkipUnreachableAfter: 5 * time.Minute}
	if err := policy.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, passed := range []time.Duration{time.Minute, 10 * time.Minute} {
		rules := append(drain.DefaultRules(), policy.Rule(drain.Situation{Now: start.Add(passed), StartedAt: start}))
		v := drain.Decide(web("web-1"), rules)
		fmt.Printf("after %s: %s, %s\n", passed, v.Action, v.Reason)
	}
	// Output:
	// after 1m0s: Evict, Evictable
	// after 10m0s: Delete, Escalated
}
