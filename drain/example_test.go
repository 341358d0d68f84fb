package drain_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
