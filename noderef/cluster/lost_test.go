package cluster

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// patient returns options for tests that move the clock while requests are in flight: no step ends a request.
func patient() Options[*nodes] {
	const long = 1000 * time.Hour
	return Options[*nodes]{probeTimeout: long, connectTimeout: long, Timeout: long}
}

// A load balancer keeps a connection on its API server, even when only that server has lost its database.
func TestAServerThatIsNotReadyIsProbedOnNewConnections(t *testing.T) {
	w, bad, good := newWorld(t, patient()), newAPIServer(t), newAPIServer(t)
	bad.put("n1")
	good.put("n1")
	var backend atomic.Pointer[apiServer]
	backend.Store(bad)
	config := bad.config("t1")
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, backend.Load().addr)
	}
	w.set(keyA, Target{Config: config, Version: "1"}, nil)
	view := w.connected(keyA)

	bad.refuse("", 500)
	require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	probes := bad.count("GET /readyz")
	w.stepUntil(time.Second, "it is probed again, on a new connection", func() bool { return bad.count("GET /readyz") > probes })
	backend.Store(good)
	w.stepUntil(time.Second, "connected to another one", func() bool { return w.get(keyA).Connected })
}

// A Secret without the label is read, but its changes cause no event.
func TestTheTargetOfALostClusterIsReadAgainWithoutANotification(t *testing.T) {
	w, before, after := newWorld(t, patient()), newAPIServer(t), newAPIServer(t)
	after.put("n1")
	w.reach(keyA, before)
	old := w.connected(keyA)
	w.mu.Lock()
	w.targets[keyA] = Target{Config: after.config("t1"), Version: "2"}
	w.mu.Unlock()
	before.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	w.stepUntil(10*time.Second, "connected where it is now", func() bool { return w.get(keyA).Connected })
	require.NotSame(t, old.Value, w.get(keyA).Value)
}

func TestAServerThatComesBackIsUsedAlthoughItsKubeconfigCannotBeRead(t *testing.T) {
	s := newAPIServer(t)
	s.put("n1")
	var unread atomic.Bool
	options := patient()
	options.Access = AccessFunc(func(context.Context, types.NamespacedName) (Target, error) {
		if unread.Load() {
			return Target{}, errors.New("the vault is sealed")
		}
		return Target{Config: s.config("t1"), Version: "1"}, nil
	})
	w := newWorld(t, options)
	view := w.connected(keyA)
	unread.Store(true)
	s.stop()
	w.stepUntil(time.Second, "nothing is known any more", func() bool { return w.get(keyA).Reason == ReasonKubeconfigUnread })
	s.restart()
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Connected })
	require.Same(t, view.Value, w.get(keyA).Value)
	w.stepUntil(time.Second, "a problem is reported", func() bool { return w.get(keyA).Problem != nil })
	require.ErrorContains(t, w.get(keyA).Problem, "the vault is sealed")
	unread.Store(false)
	w.stepUntil(time.Second, "no problem is left", func() bool { return w.get(keyA).Problem == nil })
}

// A kubeconfig that is refused is not read again for minutes. The server of the old one is still probed.
func TestAServerThatComesBackIsFoundAlthoughItsNewKubeconfigIsRefused(t *testing.T) {
	w, s := newWorld(t, patient()), newAPIServer(t)
	s.put("n1")
	w.reach(keyA, s)
	view := w.connected(keyA)
	w.set(keyA, Target{}, errInvalidKubeconfig)
	w.eventually("a problem is reported", func() bool { return w.get(keyA).Problem != nil })
	s.stop()
	w.stepUntil(time.Second, "nothing is known any more", func() bool { return w.get(keyA).Reason == ReasonKubeconfigRefused })
	s.restart()
	connected := func() bool { return w.get(keyA).Connected }
	for range 2 { // a probe that was under way fails after the first step, and is repeated after the second
		w.clock.Step(30 * time.Second)
		if pollFor(10*time.Second, connected) {
			break
		}
	}
	w.eventually("connected again after a minute", connected)
	require.Same(t, view.Value, w.get(keyA).Value)
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
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Connected })
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
	var backend atomic.Pointer[apiServer]
	backend.Store(before)
	config := before.config("t1")
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, backend.Load().addr)
	}
	w.set(keyA, Target{Config: config, Version: "1"}, nil)
	view := w.connected(keyA)
	before.put("later") // a reflector restarts a watch that has brought no event
	w.eventually("the watch brings the event", func() bool { return view.Value.has(t, "later") })
	return w, before, after, func() { backend.Store(after) }
}

// readsAnew waits for a new connection and for the Nodes of the backup.
func (w *world) readsAnew(old *nodes) {
	w.t.Helper()
	w.stepUntil(time.Second, "there is another connection", func() bool {
		view := w.get(keyA)
		return view.Connected && view.Value != old
	})
	view := w.connected(keyA)
	require.True(w.t, view.Value.has(w.t, "early"))
	require.False(w.t, view.Value.has(w.t, "late"))
}

// The other server answers the first probe at once, so that the cluster never counts as lost.
func TestAServerThatWasRestoredBehindABalancerIsReadAgainWhenAConnectionBreaks(t *testing.T) {
	w, before, _, switchOver := standby(t, patient())
	old := w.get(keyA).Value
	switchOver()
	before.http.CloseClientConnections()
	w.readsAnew(old)
}

func TestAServerThatWasRestoredBehindABalancerIsReadAgainWhenItIsSilent(t *testing.T) {
	w, before, after, switchOver := standby(t, patient())
	old := w.get(keyA).Value
	after.refuse("PEEK", 503)
	switchOver()
	before.http.CloseClientConnections()
	w.eventually("its version cannot be listed", func() bool { return after.count("PEEK") > 0 })
	require.Same(t, old, w.get(keyA).Value)
	after.refuse("PEEK", 0)
	w.clock.Step(90 * time.Second)
	w.readsAnew(old)
}

func TestAServerThatWasRestoredBehindABalancerIsReadAgainWhenAConnectionHangs(t *testing.T) {
	w, before, after, switchOver := standby(t, Options[*nodes]{})
	old := w.get(keyA).Value
	before.hang()
	switchOver()
	w.clock.Step(90 * time.Second)
	w.eventually("it is probed", func() bool { return before.pending("GET /readyz") == 1 })
	require.Zero(t, after.count(""))
	w.readsAnew(old)
}

func TestAServerWhoseVersionCannotBeListedIsNotTakenForRestored(t *testing.T) {
	w, s := newWorld(t, patient()), newAPIServer(t)
	s.put("n1")
	w.reach(keyA, s)
	old := w.connected(keyA)
	s.stop()
	require.Error(t, w.becomes(keyA, ReasonUnreachable))
	s.refuse("PEEK", 403)
	s.restart()
	w.stepUntil(time.Second, "connected again", func() bool { return w.get(keyA).Connected })
	require.Same(t, old.Value, w.get(keyA).Value)
	require.NotZero(t, s.count("PEEK"))
}

// A manager of many clusters ends the one whose kubeconfig has changed, and runs another.
func TestARunningTargetIsReplacedWhenTheAccessReturnsAnother(t *testing.T) {
	s := newAPIServer(t)
	var runs [2]ctrlcluster.Cluster
	for i := range runs {
		var err error
		runs[i], err = ctrlcluster.New(s.config("t1"))
		require.NoError(t, err)
	}
	var now, setUps atomic.Int32
	ended := make(chan ctrlcluster.Cluster, 2)
	options := patient()
	options.Setup = func(ctx context.Context, c *Connection) (*nodes, error) {
		setUps.Add(1)
		c.Go(func(ctx context.Context) {
			<-ctx.Done()
			ended <- c.Cluster
		})
		return setupNodes(ctx, c)
	}
	options.Access = AccessFunc(func(context.Context, types.NamespacedName) (Target, error) {
		return Target{Running: runs[now.Load()]}, nil
	})
	w := newWorld(t, options)
	w.eventually("connected", func() bool { return w.get(keyA).Connected })
	require.Same(t, runs[0], w.get(keyA).Cluster)
	w.eventually("so is another one that shares it", func() bool { return w.get(keyB).Connected })
	now.Store(1)
	w.stepUntil(time.Minute, "it is the other one", func() bool { return w.get(keyA).Cluster == runs[1] })
	w.stepUntil(time.Minute, "for both", func() bool { return w.get(keyB).Cluster == runs[1] })

	t.Log("what Setup had started on the one before ends with its last use")
	require.Same(t, runs[0], <-ended)
	w.eventually("it is forgotten", func() bool { return w.shared() == 1 })

	t.Log("the value of an unused cluster stays: Setup cannot run twice on it")
	w.clusters.Forget(keyA)
	w.clusters.Forget(keyB)
	w.eventually("connected again", func() bool { return w.get(keyA).Connected })
	require.Equal(t, int32(2), setUps.Load())
	require.Empty(t, ended)
	w.stop()
	require.Same(t, runs[1], <-ended)
	<-w.done
}

// shared returns how many running Targets have a value of Setup.
func (w *world) shared() int {
	w.clusters.sharedMu.Lock()
	defer w.clusters.sharedMu.Unlock()
	return len(w.clusters.values)
}
