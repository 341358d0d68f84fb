package runner

import (
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BenchmarkStep is one pass over a Node with 250 pods behind a closed budget; it has to stay far below 10 ms.
func BenchmarkStep(b *testing.B) {
	pods := &memorySource{pods: map[string]map[types.UID]*corev1.Pod{}}
	for i := range 250 {
		pods.put(pod("n", fmt.Sprintf("p%03d", i)))
	}
	budgets := &memoryBudgets{}
	budgets.set(0, 1)
	r, err := New(Config{Nodes: &memoryNodes{}, Pods: pods, Evictor: &memoryEvictor{}, Budgets: budgets})
	if err != nil {
		b.Fatal(err)
	}
	node := cordoned("n")
	b.ReportAllocs()
	for b.Loop() {
		result, err := r.Step(b.Context(), Request{Node: node})
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.WriteString(io.Discard, result.Message)
	}
}
