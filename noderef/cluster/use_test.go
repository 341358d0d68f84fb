package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func (w *world) use(mapped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mapped = func(types.NamespacedName) bool { return mapped }
}

func (w *world) links() int {
	w.clusters.mu.Lock()
	defer w.clusters.mu.Unlock()
	return len(w.clusters.links)
}

func TestAnUnusedConnectionEnds(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	w.use(false)
	w.reach(keyA, s)
	w.connected(keyA)
	w.clock.Step(10*time.Minute - time.Second)
	w.holds("the connection stays", func() bool { return w.links() == 1 })

	w.get(keyA)
	w.clock.Step(time.Second)
	w.holds("it was used a moment ago", func() bool { return w.links() == 1 })

	w.stepUntil(10*time.Minute, "it ends", func() bool { return w.links() == 0 })
	w.eventually("nothing is open", func() bool { return s.pending("") == 0 })
	w.connected(keyA)
}

func TestAConnectionStaysWhileAMapperReturnsRequestsForItsCluster(t *testing.T) {
	w, _, _ := reached(t, Options[*nodes]{})
	for range 12 {
		w.clock.Step(10 * time.Minute)
		w.holds("the connection stays", func() bool { return w.links() == 1 })
	}
	require.Equal(t, 1, w.links())
	w.reconnected(keyA) // a step may have cut a probe short
}

func TestWhatSetupStartsEndsWithTheConnection(t *testing.T) {
	s := newAPIServer(t)
	started, ended := make(chan types.NamespacedName, 1), make(chan types.NamespacedName, 1)
	w := newWorld(t, Options[*nodes]{Setup: func(_ context.Context, c *Connection) (*nodes, error) {
		c.Go(func(ctx context.Context) {
			started <- c.Key
			<-ctx.Done()
			ended <- c.Key
		})
		return &nodes{}, nil
	}})
	w.reach(keyA, s)
	w.get(keyA)
	require.Equal(t, keyA, <-started)
	w.eventually("connected", func() bool { return w.get(keyA).Reason == "" })
	w.set(keyA, Target{}, ErrNoKubeconfig)
	require.Equal(t, keyA, <-ended)
}

func TestAnAccessIsRequired(t *testing.T) {
	_, err := New(Options[int]{})
	require.ErrorContains(t, err, "Access is required")
}
