package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestARotatedKubeconfigIsTakenUpWithoutADisconnection(t *testing.T) {
	w, before, after := newWorld(t, Options[*nodes]{}), newAPIServer(t), newAPIServer(t)
	before.put("n1")
	after.put("n1")
	w.reach(keyA, before)
	old := w.connected(keyA)
	w.eventually("the watch runs", func() bool { return before.pending("WATCH") == 1 })
	w.rest()

	t.Log("the new address does not answer yet")
	after.hang()
	w.set(keyA, Target{Config: after.config("t1"), Version: "2"}, nil)
	w.eventually("it is tried", func() bool { return after.pending("GET /readyz") == 1 })
	require.True(t, w.get(keyA).Connected, "the old connection goes on")
	require.NoError(t, patchNode(t, old.Cluster.GetClient(), "n1"))
	w.stepUntil(time.Second, "a problem is reported", func() bool { return w.get(keyA).Problem != nil })
	require.True(t, w.get(keyA).Connected)

	after.serve()
	w.stepUntil(time.Second, "the new connection is there", func() bool { return w.get(keyA).Value != old.Value })
	w.connected(keyA)
	require.NoError(t, w.get(keyA).Problem)
	w.woken(keyA)
	w.eventually("the old connection has ended", func() bool { return before.pending("WATCH") == 0 })
	require.ErrorIs(t, patchNode(t, old.Cluster.GetClient(), "n1"), ErrNotConnected)
}

func TestTheSameKubeconfigAgainChangesNothing(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	w.reach(keyA, s)
	view := w.connected(keyA)
	asked := w.asked
	for range 3 {
		w.set(keyA, Target{Config: s.config("t1"), Version: "1"}, nil)
	}
	w.eventually("the target was looked at", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked > asked
	})
	require.Same(t, view.Value, w.get(keyA).Value)
	require.Equal(t, 1, s.count("GET /readyz"))
}

func TestRefusedCredentialsAreReplacedAsSoonAsThereAreOthers(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	s.put("n1")
	w.reach(keyA, s)
	view := w.connected(keyA)

	s.accept("t2")
	require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	err := w.becomes(keyA, ReasonUnauthorized)
	require.ErrorIs(t, err, ErrUnauthorized)
	require.ErrorContains(t, err, "renew the credentials in the kubeconfig")

	w.set(keyA, Target{Config: s.config("t2"), Version: "2"}, nil)
	view = w.connected(keyA) // the clock stands: it did not wait for a pause
	require.NoError(t, patchNode(t, view.Cluster.GetClient(), "n1"))
}

func TestAnAccessThatTellsNothingIsAskedAgainWhenAConnectionIsLost(t *testing.T) {
	s, token := newAPIServer(t), make(chan string, 1)
	s.put("n1")
	current := "t1"
	options := Options[*nodes]{}
	options.Access = AccessFunc(func(_ context.Context, _ types.NamespacedName) (Target, error) {
		select {
		case current = <-token:
		default:
		}
		return Target{Config: s.config(current), Version: current}, nil
	})
	w := newWorld(t, options)
	view := w.connected(keyA)
	s.accept("t2")
	require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	require.Error(t, w.becomes(keyA, ReasonUnauthorized))
	token <- "t2"
	w.stepUntil(time.Second, "connected with new credentials", func() bool { return w.get(keyA).Connected })
}

func TestAClusterThatGoesIsClosedAtOnce(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	s.put("n1")
	w.reach(keyA, s)
	view := w.connected(keyA)
	s.hang()
	done := make(chan error, 1)
	go func() { done <- patchNode(t, view.Cluster.GetClient(), "n1") }()
	w.eventually("a request waits", func() bool { return s.pending("PATCH") == 1 })
	w.rest()

	w.mu.Lock()
	delete(w.targets, keyA)
	w.mu.Unlock()
	w.notify(keyA, true)
	require.ErrorIs(t, <-done, ErrNotConnected)
	w.woken(keyA)
	w.eventually("nothing is open", func() bool { return s.pending("") == 0 })
	require.ErrorIs(t, w.becomes(keyA, ReasonNoKubeconfig), ErrNoKubeconfig)

	t.Log("another cluster of the same name")
	s.serve()
	w.reach(keyA, s)
	require.NotSame(t, view.Value, w.connected(keyA).Value)
}

func TestAKubeconfigThatIsRefusedIsLookedAtAgainWhenItChanges(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	w.set(keyA, Target{}, fmt.Errorf("%w: user %q has an exec plugin", ErrUnsafeKubeconfig, "u"))
	err := w.becomes(keyA, ReasonKubeconfigRefused)
	require.ErrorIs(t, err, ErrUnsafeKubeconfig)
	asked := w.asked
	for range 60 {
		w.clock.Step(time.Second)
	}
	time.Sleep(10 * time.Millisecond)
	require.Equal(t, asked, w.asked, "asking again helps nobody")
	w.reach(keyA, s)
	w.connected(keyA)

	t.Log("a bad one in place of a good one does no harm but is said")
	w.set(keyA, Target{}, fmt.Errorf("%w: it is empty", ErrInvalidKubeconfig))
	w.eventually("a problem", func() bool { return w.get(keyA).Problem != nil })
	require.ErrorIs(t, w.get(keyA).Problem, ErrInvalidKubeconfig)
	require.True(t, w.get(keyA).Connected)
}
