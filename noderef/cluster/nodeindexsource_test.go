package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// A subscriber that is woken by a Node finds it in the index, however slow other handlers are. This test blocks another handler of
// the same informer and the first of two subscribers.
func TestASubscriberFindsTheNodeItIsWokenBy(t *testing.T) {
	c := newCluster(t)
	x := newIndex(t, c)
	informer, err := c.cache.GetInformer(t.Context(), &corev1.Node{}, cache.BlockUntilSynced(false))
	require.NoError(t, err)
	release := make(chan struct{})
	open := sync.OnceFunc(func() { close(release) })
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-release }})
	require.NoError(t, err)

	var lost atomic.Int32
	mustFind := func(e NodeEvent) {
		if x.ByName(e.New.Name) == nil || len(x.ByProviderID(e.New.Spec.ProviderID)) == 0 {
			lost.Add(1)
		}
	}
	slow := recorder{before: func(e NodeEvent) { <-release; mustFind(e) }}
	fast := recorder{before: mustFind}
	require.NoError(t, x.Source(slow.mapper).Start(t.Context(), newQueue(t)))
	require.NoError(t, x.Source(fast.mapper).Start(t.Context(), newQueue(t)))
	c.start(t)
	t.Cleanup(open) // a failed test must not leave blocked handlers, because the cache waits for them

	for i := range 20 {
		c.Add(newNode(fmt.Sprintf("n%d", i), fmt.Sprint(i), fmt.Sprintf("test://%d", i)))
	}
	eventually(t, "the first Node is in the index while its subscriber is held back", func() bool { return x.count() > 0 })
	require.Zero(t, slow.count())
	open()
	eventually(t, "all are told", func() bool { return slow.count() == 20 && fast.count() == 20 })
	require.Zero(t, lost.Load())
}

func TestInsignificantUpdatesAreIndexedButCauseNoEvent(t *testing.T) {
	c := newCluster(t, newNode("a", "u1", "test://1"))
	x := newIndex(t, c)
	var r recorder
	queue := newQueue(t)
	require.NoError(t, x.Source(r.mapper).Start(t.Context(), queue))
	c.start(t)
	eventually(t, "a is told", func() bool { return r.count() == 1 })
	eventually(t, "what a maps to is in the queue", func() bool { return queue.Len() == 1 }) // a moment later

	beat := newNode("a", "u1", "test://1")
	beat.Status.Conditions = []corev1.NodeCondition{}
	beat.Status.Images = []corev1.ContainerImage{{Names: []string{"new"}}}
	c.Modify(beat)
	eventually(t, "the update is indexed", func() bool { return len(x.ByName("a").Status.Images) == 1 })
	cordoned := beat.DeepCopy()
	cordoned.Spec.Unschedulable = true
	c.Modify(cordoned)
	eventually(t, "the cordon is told", func() bool { return r.count() > 1 })
	require.Equal(t, []string{">u1", "u1>u1"}, r.seen(), "one event for the cordon, none for the heartbeat")
}

func TestALateSubscriberGetsTheExistingNodes(t *testing.T) {
	c := newCluster(t, newNode("b", "u2", "test://2"), newNode("a", "u1", "test://1"))
	x := newIndex(t, c)
	c.start(t)
	eventually(t, "synced", x.HasSynced)

	var r recorder
	queue := newQueue(t)
	require.NoError(t, x.Source(r.mapper).Start(t.Context(), queue))
	require.Equal(t, []string{">u1", ">u2"}, r.seen())
	require.Equal(t, 2, queue.Len())
	c.Add(newNode("c", "u3", "test://3"))
	eventually(t, "later Nodes too", func() bool { return r.count() == 3 })
}

func TestNoEventIsLostOrDoubledAroundALateStart(t *testing.T) {
	x := newIndex(t, newCluster(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			x.onUpdate(nil, newNode(fmt.Sprintf("n%04d", i), fmt.Sprint(i), ""))
		}
	}()
	eventually(t, "some are there", func() bool { return x.count() > 10 })
	var r recorder
	require.NoError(t, x.Source(r.mapper).Start(t.Context(), newQueue(t)))
	<-done
	want := make([]string, 2000)
	for i := range want {
		want[i] = fmt.Sprintf(">%d", i)
	}
	require.Equal(t, want, r.seen())
}

func TestAStoppedControllerGetsNoEvents(t *testing.T) {
	x := newIndex(t, newCluster(t))
	var stopped, running recorder
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, x.Source(stopped.mapper).Start(ctx, newQueue(t)))
	require.NoError(t, x.Source(running.mapper).Start(t.Context(), newQueue(t)))
	stop()
	eventually(t, "it is taken off the list", func() bool {
		x.eventsMu.Lock()
		defer x.eventsMu.Unlock()
		return len(x.subscribers) == 1
	})
	x.onUpdate(nil, newNode("a", "u1", ""))
	require.Zero(t, stopped.count())
	require.Equal(t, 1, running.count())
}

func TestTheControllerWaitsForTheFirstList(t *testing.T) {
	c := newCluster(t, newNode("a", "u1", "test://1"))
	x := newIndex(t, c)
	s := x.Source((&recorder{}).mapper)

	impatient, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("gave up")
	cancel(cause)
	require.ErrorIs(t, s.WaitForSync(impatient), cause)

	c.start(t)
	require.NoError(t, s.WaitForSync(t.Context()))
	require.NotNil(t, x.ByName("a"))
}
