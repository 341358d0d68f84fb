package runner

import (
	"fmt"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/drain"
)

// BenchmarkStep is one pass over a Node with 250 pods; it has to stay far below 10 ms.
func BenchmarkStep(b *testing.B) {
	one := func(allowed int32) *memoryBudgets {
		budgets := &memoryBudgets{}
		budgets.set(allowed, 1)
		return budgets
	}
	many := func(count int) *memoryBudgets { // each of one shard
		budgets := &memoryBudgets{}
		for i := range count {
			budgets.list = append(budgets.list, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("b%04d", i), ResourceVersion: "1"},
				Spec: policyv1.PodDisruptionBudgetSpec{
					MaxUnavailable: new(intstr.FromInt32(1)),
					Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"shard": fmt.Sprintf("s%04d", i)}},
				},
				Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 9, DesiredHealthy: 8, CurrentHealthy: 8},
			})
		}
		return budgets
	}
	for name, bc := range map[string]struct {
		budgets *memoryBudgets
		policy  *drain.Policy
		blocked int
	}{
		"behind a closed budget":            {one(0), nil, 250},
		"all of them queued":                {one(250), nil, 0},
		"with a policy and a closed budget": {one(0), &drain.Policy{DeleteAfter: time.Hour, SkipUnreachableAfter: 5 * time.Minute}, 250},
		"beside 50 budgets":                 {many(50), nil, 250},
		"beside 5000 budgets":               {many(5000), nil, 250},
	} {
		b.Run(name, func(b *testing.B) {
			pods := &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}}
			for i := range 250 {
				p := pod("n", fmt.Sprintf("p%03d", i))
				p.Labels["shard"], p.Labels["tier"], p.Labels["team"] = fmt.Sprintf("s%04d", i%len(bc.budgets.list)), "web", "a"
				pods.put(p)
			}
			r, err := New(Config{Nodes: &memoryNodes{}, Pods: pods, Evictor: &memoryEvictor{}, Budgets: bc.budgets.in})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				result, err := r.Step(b.Context(), Request{Node: cordoned("n"), Policy: bc.policy})
				if err != nil || result.Counts.Blocked != bc.blocked {
					b.Fatal(result, err)
				}
				_, _ = io.WriteString(io.Discard, result.Message)
			}
		})
	}
}
