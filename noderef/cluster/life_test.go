package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func patchNode(t *testing.T, c client.Client, name string) error {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return c.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{}`)))
}

func TestAClusterIsConnectedInTheBackgroundAndWakesItsOwners(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	s.put("n1")
	s.hang() // or the background may be faster than the answer to the first Get
	w.reach(keyA, s)

	view, err := w.clusters.Get(keyA)
	require.ErrorIs(t, err, ErrNotConnected)
	require.Equal(t, ReasonConnecting, view.Reason)
	require.Zero(t, view.LastSeen)

	s.serve()
	view = w.connected(keyA)
	w.woken(keyA)
	require.True(t, view.Value.has(t, "n1"))
	require.Equal(t, w.clock.Now(), view.LastSeen.UTC())
	require.NoError(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	require.Equal(t, 1, s.count("GET /readyz"), "one probe, and then what watches say")
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, map[string]bool{"HTTP/2.0": true}, s.protocols, "only HTTP/2 has pings")
}

func TestAServerThatDiesIsNoticedProbedWithBackoffAndFoundAgain(t *testing.T) {
	w, s, view := reached(t, Options[*nodes]{})
	w.rest()

	s.stop()
	err := w.becomes(keyA, ReasonUnreachable)
	w.woken(keyA)
	require.ErrorIs(t, err, ErrNotConnected)
	require.ErrorContains(t, err, "connection refused")
	require.ErrorContains(t, err, "last seen 2026-01-01T00:00:00Z")
	require.Nil(t, w.get(keyA).Value)
	require.ErrorIs(t, patchNode(t, view.Cluster.GetClient(), "n1"), ErrNotConnected)

	t.Log("a long outage, and a Node that joins before the server is reached again")
	for range 20 {
		w.clock.Step(time.Minute)
		w.holds("the cluster is lost", func() bool { return w.get(keyA).Reason == ReasonUnreachable })
	}
	w.stepUntil(time.Second, "the error text is stable", func() bool { // a step may have cut a probe short
		_, again := w.clusters.Get(keyA)
		return again != nil && err.Error() == again.Error()
	})
	s.refuse("GET /readyz", 503)
	s.restart()
	s.put("n2")
	requests := s.count("")
	w.stepUntil(time.Second, "it is probed", func() bool { return s.count("GET /readyz") > 1 })
	require.Equal(t, s.count("")-requests, s.count("GET /readyz")-1, "nothing else is sent")
	s.refuse("GET /readyz", 0)
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Reason == "" })
	require.True(t, w.connected(keyA).Value.has(t, "n2"))
}

func TestAServerThatHangsIsNoticedWhileARequestWaits(t *testing.T) {
	w, s, view := reached(t, Options[*nodes]{})
	probes := s.count("GET /readyz")

	s.hang()
	done := make(chan error, 1)
	go func() { done <- patchNode(t, view.Cluster.GetClient(), "n1") }()
	w.eventually("the request waits", func() bool { return s.pending("PATCH") == 1 })
	require.Empty(t, w.get(keyA).Reason)
	w.clock.Step(3 * time.Second) // Patience
	w.eventually("the server is probed", func() bool { return s.count("GET /readyz") == probes+1 })
	w.clock.Step(5 * time.Second) // ProbeTimeout
	require.ErrorContains(t, w.becomes(keyA, ReasonUnreachable), "does not answer in time")
	require.Error(t, <-done, "the request ends")
	require.ErrorIs(t, patchNode(t, view.Cluster.GetClient(), "n1"), ErrNotConnected)
	require.Equal(t, 1, s.count("PATCH"), "and no other request is sent")

	s.serve()
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Reason == "" })
	require.NoError(t, patchNode(t, w.get(keyA).Cluster.GetClient(), "n1"))
}

func TestOnlyASilentWatchIsStartedAgain(t *testing.T) {
	w, s, view := reached(t, Options[*nodes]{})
	probes, watches := s.count("GET /readyz"), s.count("WATCH")

	for range 10 {
		seen := w.get(keyA).LastSeen
		w.clock.Step(time.Minute)
		s.bookmark()
		w.eventually("the bookmark is heard", func() bool { return w.get(keyA).LastSeen.After(seen) })
	}
	w.holds("bookmarks are signs of life", func() bool { return s.count("GET /readyz") == probes && s.count("WATCH") == watches })

	w.stepUntil(10*time.Second, "after silence there is another watch", func() bool { return s.count("WATCH") > watches })
	w.eventually("and the server is probed", func() bool { return s.count("GET /readyz") > probes })
	require.Same(t, view.Value, w.connected(keyA).Value, "the connection is the same")
}

func TestAServerThatFallsSilentIsLost(t *testing.T) {
	w, s, _ := reached(t, Options[*nodes]{})
	s.hang()
	w.stepUntil(10*time.Second, "lost", func() bool { return w.get(keyA).Reason == ReasonUnreachable })
	w.eventually("the watch was cut", func() bool { return s.pending("WATCH") == 0 })
}

func TestAServerThatIsNotReadyIsNotConnected(t *testing.T) {
	w, s, view := reached(t, Options[*nodes]{})

	t.Log("its database goes: requests fail, and it says that it is not ready")
	s.refuse("PATCH", 500)
	s.refuse("GET /readyz", 500)
	require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	require.Error(t, w.becomes(keyA, ReasonUnreachable))

	t.Log("requests that fail while the server is ready are the callers' business")
	s.refuse("GET /readyz", 0)
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Reason == "" })
	view = w.connected(keyA)
	probes := s.count("GET /readyz")
	for range 50 {
		require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	}
	require.Empty(t, w.get(keyA).Reason)
	require.LessOrEqual(t, s.count("GET /readyz"), probes+1, "trouble has the server probed every few seconds at most")
}

func TestNoGoroutineIsLeftWhenTheContextEnds(t *testing.T) {
	w, alive, dead, hanging := newWorld(t, Options[*nodes]{}), newAPIServer(t), newAPIServer(t), newAPIServer(t)
	alive.put("n1")
	w.reach(keyA, alive)
	w.reach(keyB, dead)
	keyC, keyD := types.NamespacedName{Name: "c"}, types.NamespacedName{Name: "d"}
	w.reach(keyC, hanging)
	w.connected(keyA)
	w.connected(keyB)
	w.connected(keyC)
	dead.stop()
	w.get(keyD) // no kubeconfig
	require.Error(t, w.becomes(keyD, ReasonNoKubeconfig))
	require.Error(t, w.becomes(keyB, ReasonUnreachable))
	hanging.hang()
	view := w.get(keyC)
	done := make(chan error, 1)
	go func() { done <- patchNode(t, view.Cluster.GetClient(), "n1") }()
	w.eventually("a request waits", func() bool { return hanging.pending("PATCH") == 1 })

	w.stop()
	<-w.done
	require.ErrorIs(t, <-done, ErrNotConnected)
	_, err := w.clusters.Get(keyA)
	require.ErrorIs(t, err, ErrNotConnected)
	require.ErrorContains(t, err, "shutting down")
	requireNoGoroutines(t)
}

func TestALongOutageCausesOnlyProbesWithBackoff(t *testing.T) {
	w, s, view := reached(t, Options[*nodes]{})
	s.refuse("", 503)
	require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	w.eventually("the watch was cut", func() bool { return s.pending("WATCH") == 0 })

	probes, others := s.count("GET /readyz"), s.count("")-s.count("GET /readyz")
	steps, made := 0, func() int { return s.count("GET /readyz") - probes }
	for ; steps < 120 || made() < 10; steps++ { // 20 minutes, and more where probes take longer than they do here
		before := made()
		w.clock.Step(10 * time.Second)
		pollFor(time.Duration(2+steps/120*5)*time.Millisecond, func() bool { return made() > before }) // the next step cancels a slow probe
		require.ErrorIs(t, patchNode(t, view.Cluster.GetClient(), "n1"), ErrNotConnected)
		require.Less(t, steps, 10000, "it is not probed any more")
	}
	require.LessOrEqual(t, made(), steps*10/30+5)
	require.Equal(t, others, s.count("")-s.count("GET /readyz"))
}

func TestGetAllocatesNothing(t *testing.T) {
	w, s, _ := reached(t, Options[*nodes]{})
	nothing := func() bool { return testing.AllocsPerRun(100, func() { _, _ = w.clusters.Get(keyA) }) == 0 }
	w.eventually("no allocations, connected", nothing) // those of an informer at work are counted too
	s.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	w.eventually("no allocations, not connected", nothing)
}
