package machinepool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// hoursAhead is what a process records whose clock is five hours ahead.
var hoursAhead = actingNow.Add(5 * time.Hour).Format(time.RFC3339)

// The limit of an hour was reached after six.
func TestADrainOfANodeWhoseStartIsYetToComeBeginsAnew(t *testing.T) {
	a := &api{}
	p, drainer, _ := draining(t, a, 3600)
	drainer.result = runner.Result{Counts: drain.Counts{Total: 1, Blocked: 1}}
	node := testNode("a", "", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations = map[string]string{contract.DrainStartedAnnotation: hoursAhead}
	})
	for range 2 {
		_, err := p.drain(t.Context(), []*corev1.Node{node})
		require.NoError(t, err)
		node.Annotations[contract.DrainStartedAnnotation] = actingNow.Format(time.RFC3339) // as the first pass has written it
	}
	require.Len(t, a.patched, 1)
	require.Contains(t, a.patched[0], `"`+contract.DrainStartedAnnotation+`":"2026-01-02T12:00:00Z"`)
	require.Equal(t, []string{"a"}, drainer.asked)
	require.Equal(t, time.Hour, p.RequeueAfter(), "the limit counts from now")
}
