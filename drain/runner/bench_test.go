package runner

import (
	"fmt"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// BenchmarkStep is one pass over a Node with 250 pods; it has to stay far below 10 ms.
func BenchmarkStep(b *testing.B) {
	staged := &drain.Policy{
		Stages:      []drain.Stage{{Mode: drain.ModeClamp}, {After: time.Hour, Mode: drain.ModeDelete}},
		Unreachable: &drain.UnreachablePolicy{},
	}
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
			r, err := New(Config{Nodes: &memoryNodes{}, Pods: pods, Evictor: &memoryEvictor{}, Deleter: &memoryDeleter{}, Budgets: budgets})
			if err != nil {
				b.Fatal(err)
			}
			req := Request{Node: cordoned("n"), Policy: bc.policy, Deadline: time.Now().Add(24 * time.Hour)}
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
