package runner

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
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
	staged := &drain.Policy{DeleteAfter: time.Hour, SkipUnreachableAfter: 5 * time.Minute}
	for name, bc := range map[string]struct {
		allowed int32
		policy  *drain.Policy
	}{
		"behind a closed budget":            {0, nil},
		"all of them queued":                {250, nil},
		"with a policy and a closed budget": {0, staged},
	} {
		b.Run(name, func(b *testing.B) {
			pods := &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}}
			for i := range 250 {
				pods.put(pod("n", fmt.Sprintf("p%03d", i)))
			}
			budgets := &memoryBudgets{}
			budgets.set(bc.allowed, 1)
			r, err := New(Config{Nodes: &memoryNodes{}, Pods: pods, Evictor: &memoryEvictor{}, Budgets: budgets.in})
			if err != nil {
				b.Fatal(err)
			}
			req := Request{Node: cordoned("n"), Policy: bc.policy}
			b.ReportAllocs()
			for b.Loop() {
				result, err := r.Step(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.WriteString(io.Discard, result.Message)
			}
		})
	}
}

// sharedBudgets hand out what a cache does: pointers to its objects.
type sharedBudgets struct {
	list []*policyv1.PodDisruptionBudget
}

func (b *sharedBudgets) in(context.Context, string) ([]*policyv1.PodDisruptionBudget, error) {
	return slices.Clone(b.list), nil
}

// BenchmarkStepBesideManyBudgets is one pass over a Node with 250 pods, in a namespace with so many budgets, each of one application.
func BenchmarkStepBesideManyBudgets(b *testing.B) {
	for _, count := range []int{50, 5000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			budgets := &sharedBudgets{}
			for i := range count {
				budgets.list = append(budgets.list, &policyv1.PodDisruptionBudget{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("b%04d", i), ResourceVersion: "1"},
					Spec: policyv1.PodDisruptionBudgetSpec{
						MaxUnavailable: new(intstr.FromInt32(1)),
						Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%04d", i)}},
					},
					Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: 9, DesiredHealthy: 8, CurrentHealthy: 8},
				})
			}
			pods := &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}}
			for i := range 250 {
				p := pod("n", fmt.Sprintf("p%03d", i))
				p.Labels = map[string]string{"app": fmt.Sprintf("app-%04d", i%count), "tier": "web", "team": "a", "version": "v1"}
				pods.put(p)
			}
			r, err := New(Config{Nodes: &memoryNodes{}, Pods: pods, Evictor: &memoryEvictor{}, Budgets: budgets.in})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				result, err := r.Step(b.Context(), Request{Node: cordoned("n")})
				if err != nil || result.Counts.Blocked != 250 {
					b.Fatal(result, err)
				}
			}
		})
	}
}
