package cluster

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patient returns options for tests that move the clock while requests are in flight: no step ends a request.
func patient() Options[*nodes] {
	const long = 1000 * time.Hour
	return Options[*nodes]{probeTimeout: long, timeout: long}
}

// balanced makes a server the target of a cluster; the function sends new connections to another one.
func (w *world) balanced(first *apiServer) (switchTo func(*apiServer)) {
	w.t.Helper()
	var backend atomic.Pointer[apiServer]
	backend.Store(first)
	config := first.config("t1")
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, backend.Load().addr)
	}
	w.set(keyA, Target{Config: config, Version: "1"}, nil)
	w.connected(keyA)
	return backend.Store
}

// A load balancer keeps a connection on its API server, even when only that server has lost its database.
func TestAServerThatIsNotReadyIsProbedOnNewConnections(t *testing.T) {
	w, bad, good := newWorld(t, patient()), newAPIServer(t), newAPIServer(t)
	bad.put("n1")
	good.put("n1")
	switchTo := w.balanced(bad)
	bad.refuse("", 500)
	require.Error(t, patchNode(t, w.get(keyA).Cluster.GetClient(), "n1"))
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	probes := bad.count("GET /readyz")
	w.stepUntil(time.Second, "it is probed again, on a new connection", func() bool { return bad.count("GET /readyz") > probes })
	switchTo(good)
	w.stepUntil(time.Second, "connected to another one", func() bool { return w.get(keyA).Reason == "" })
}

// A Secret without the label is read, but its changes cause no event.
func TestTheTargetOfALostClusterIsReadAgainWithoutANotification(t *testing.T) {
	w, before, after := newWorld(t, patient()), newAPIServer(t), newAPIServer(t)
	after.put("n1")
	w.reach(keyA, before)
	w.connected(keyA)
	w.mu.Lock()
	w.targets[keyA] = Target{Config: after.config("t1"), Version: "2"}
	w.mu.Unlock()
	before.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	w.stepUntil(10*time.Second, "connected where it is now", func() bool { return w.get(keyA).Reason == "" })
}

func TestNothingIsTakenForAbsentAfterAnOutageUntilEverythingIsRead(t *testing.T) {
	w, s, _ := reached(t, patient())
	s.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	s.put("n2")
	s.refuse("WATCH", 503)
	s.refuse("GET /api/v1/nodes", 503)
	s.restart()
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Reason == "" })
	w.eventually("a problem is reported", func() bool { return w.get(keyA).Problem != nil })
	view := w.get(keyA)
	require.False(t, view.Synced)
	for _, name := range []string{"n1", "n2"} {
		require.ErrorIs(t, view.Value.reader.Get(t.Context(), types.NamespacedName{Name: name}, &corev1.Node{}), ErrNotSynced)
	}
	s.refuse("WATCH", 0)
	s.refuse("GET /api/v1/nodes", 0)
	require.True(t, w.connected(keyA).Value.has(t, "n2"))
}

// A watch from a future resource version receives no event, no bookmark and no error.
func TestAServerThatWasRestoredFromABackupIsReadAgain(t *testing.T) {
	w, s := newWorld(t, patient()), newAPIServer(t)
	for range 100 {
		s.put("late")
	}
	w.reach(keyA, s)
	old := w.connected(keyA)
	s.put("later") // a reflector restarts a watch that has brought no event
	w.eventually("the watch brings the event", func() bool { return old.Value.has(t, "later") })
	s.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	s.rewind(50, "early")
	s.restart()
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Reason == "" })
	view := w.connected(keyA)
	w.eventually("what there is now is seen", func() bool { return view.Value.has(t, "early") && !view.Value.has(t, "late") })
	w.eventually("the old connection has ended", func() bool { return s.pending("WATCH") == 1 })
	s.put("new")
	w.eventually("and what comes", func() bool { return view.Value.has(t, "new") })
	w.stop()
	<-w.done
	requireNoGoroutines(t)
}

// standby returns a world that is connected to one server, a second server that was restored from a backup, and a function that
// sends new connections to the second.
func standby(t *testing.T, options Options[*nodes]) (w *world, before, after *apiServer, switchOver func()) {
	t.Helper()
	w, before, after = newWorld(t, options), newAPIServer(t), newAPIServer(t)
	for range 100 {
		before.put("late")
	}
	after.rewind(50, "early")
	switchTo := w.balanced(before)
	view := w.get(keyA)
	before.put("later") // a reflector restarts a watch that has brought no event
	w.eventually("the watch brings the event", func() bool { return view.Value.has(t, "later") })
	return w, before, after, func() { switchTo(after) }
}

// readsAnew waits for the Nodes of the backup.
func (w *world) readsAnew() {
	w.t.Helper()
	w.stepUntil(10*time.Second, "the Nodes are those of the backup", func() bool {
		view := w.get(keyA)
		return view.Reason == "" && view.Value.has(w.t, "early") && !view.Value.has(w.t, "late")
	})
}

func TestAServerThatWasRestoredBehindABalancerIsReadAgain(t *testing.T) {
	t.Run("when a connection breaks, and the cluster never counts as lost", func(t *testing.T) {
		w, before, _, switchOver := standby(t, patient())
		switchOver()
		before.http.CloseClientConnections()
		w.readsAnew()
	})
	t.Run("when a connection hangs", func(t *testing.T) {
		w, before, _, switchOver := standby(t, Options[*nodes]{})
		before.hang()
		switchOver()
		w.readsAnew()
	})
}

// Its resource versions are higher than those of the first cluster, so that watches go on.
func TestAnotherClusterBehindABalancerIsRecognizedWhenAConnectionBreaks(t *testing.T) {
	w, before, after, switchOver := standby(t, patient())
	old := w.get(keyA)
	require.Equal(t, types.UID("first"), old.UID)
	after.rewind(500, "early")
	after.uid = "second"
	switchOver()
	before.http.CloseClientConnections()
	w.stepUntil(time.Second, "there is another connection", func() bool {
		view := w.get(keyA)
		return view.Reason == "" && view.Value != old.Value
	})
	w.readsAnew()
	require.Equal(t, types.UID("second"), w.get(keyA).UID)
}

func TestAClusterWhoseIdentityMayNotBeReadIsConnected(t *testing.T) {
	for prefix, status := range map[string]int{"GET /api/v1/namespaces": 403, "GET /api/v1/namespaces/": 404} {
		w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
		s.refuse(prefix, status)
		w.reach(keyA, s)
		require.Empty(t, w.connected(keyA).UID)
	}
}

func TestAClusterWhoseIdentityCannotBeReadNowIsNotConnectedYet(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	s.refuse("GET /api/v1/namespaces", 500)
	w.reach(keyA, s)
	require.ErrorContains(t, w.becomes(keyA, ReasonSetupFailed), "read namespace kube-system")
	s.refuse("GET /api/v1/namespaces", 0)
	w.stepUntil(time.Second, "it is read", func() bool { return w.get(keyA).UID == "first" })
}
