package machinepool

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
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
	left, err := p.drain(t.Context(), []*corev1.Node{shown})
	require.NoError(t, err)
	require.Equal(t, 1, left, "it is not over")
	require.Empty(t, drainer.asked)
	require.Empty(t, notesOf(told))
}

// A Node was taken for silent, and its kubelet answers again; or its drain was over, and another process has taken it back.
func TestANodeWhoseInstanceHasLeftIsDeletedOnlyAsItWasRead(t *testing.T) {
	a := &api{}
	p, told := acting(t, a)
	node := testNode("a", "p://a", func(n *corev1.Node) { n.ResourceVersion = "7" })
	p.State.Deleting = time.Time{}

	a.refuses = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("it is another version"))
	require.NoError(t, p.deleteNodes(t.Context(), []*corev1.Node{node}))
	require.Equal(t, []string{"a uid=a-uid version=7"}, a.deleted)
	require.Equal(t, engine.ConflictRetry, p.RequeueAfter())
	require.Empty(t, notesOf(told))

	a.refuses = errors.New("no")
	require.Error(t, p.deleteNodes(t.Context(), []*corev1.Node{node}))
	a.refuses = notFound(false)
	require.NoError(t, p.deleteNodes(t.Context(), []*corev1.Node{node}))
	require.Empty(t, notesOf(told), "another has deleted it")
	a.refuses = nil
	require.NoError(t, p.deleteNodes(t.Context(), []*corev1.Node{node}))
	require.Equal(t, []string{"Normal SuccessfulDeleteNode a"}, notesOf(told))
}
