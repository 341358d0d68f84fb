package machinepool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
)

// A pool took a Node back whose drain was over its limit, and the Node leaves again before the cache shows that: it has pods, and is not
// cordoned.
func TestANodeThatWasTakenBackIsNotDrainedByTheMarksOfBefore(t *testing.T) {
	p, drainer, told := draining(t, &api{}, 60)
	shown := testNode("a", "p://a", func(n *corev1.Node) {
		n.ResourceVersion, n.Spec.Unschedulable = "7", true
		n.Annotations = map[string]string{
			contract.DrainStartedAnnotation: actingNow.Add(-time.Hour).Format(time.RFC3339), contract.DrainedAnnotation: "a-uid",
		}
	})
	require.True(t, p.wasDrained(shown))
	taken := testNode("a", "p://a", func(n *corev1.Node) { n.ResourceVersion = "8" })
	p.env.frame.Writer.Wrote(taken)
	require.False(t, p.wasDrained(shown))
	over := func(*corev1.Node) error { t.Error("it is not over"); return nil }
	require.NoError(t, p.drain(t.Context(), []*corev1.Node{shown}, time.Time{}, over))
	require.Empty(t, drainer.asked)
	require.Empty(t, tellsOf(told))
	require.Empty(t, p.mem().drained)
}
