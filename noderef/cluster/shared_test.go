package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// sessions returns how many sessions use the value of a running Target, or wait for it.
func (w *world) sessions(running ctrlcluster.Cluster) int {
	w.clusters.sharedMu.Lock()
	defer w.clusters.sharedMu.Unlock()
	if shared := w.clusters.values[running]; shared != nil {
		return shared.sessions
	}
	return 0
}

func TestASetupThatHangsOnARunningTargetHoldsUpOnlyTheClustersThatShareIt(t *testing.T) {
	s, keyC, keyD := newAPIServer(t), types.NamespacedName{Name: "c"}, types.NamespacedName{Name: "d"}
	var runs [3]ctrlcluster.Cluster
	for i := range runs {
		var err error
		runs[i], err = ctrlcluster.New(s.config("t1"))
		require.NoError(t, err)
	}
	var setUps atomic.Int32 // on the first one
	ended := make(chan ctrlcluster.Cluster, 3)
	w := newWorld(t, Options[*nodes]{Setup: func(ctx context.Context, c *Connection) (*nodes, error) {
		if c.Cluster == runs[0] && setUps.Add(1) == 1 {
			<-ctx.Done()
		}
		c.Go(func(ctx context.Context) {
			<-ctx.Done()
			ended <- c.Cluster
		})
		return &nodes{}, nil
	}})
	for _, key := range []types.NamespacedName{keyA, keyC, keyD} {
		w.set(key, Target{Running: runs[0]}, nil)
		w.get(key)
		w.eventually("the first one sets it up", func() bool { return setUps.Load() == 1 })
	}
	w.set(keyB, Target{Running: runs[1]}, nil)
	w.eventually("another one is connected", func() bool { return w.get(keyB).Connected })
	w.set(keyB, Target{Running: runs[2]}, nil)
	require.Same(t, runs[1], <-ended, "and replaced")
	w.eventually("two wait", func() bool { return w.sessions(runs[0]) == 3 })
	w.clusters.Forget(keyD)
	w.eventually("one waits no longer", func() bool { return w.sessions(runs[0]) == 2 })

	w.clock.Step(30 * time.Second) // ConnectTimeout
	for _, key := range []types.NamespacedName{keyA, keyC} {
		require.ErrorContains(t, w.becomes(key, ReasonSetupFailed), "no answer within 30s")
	}
	require.Same(t, runs[0], <-ended, "what Setup has started ends")
	require.Equal(t, int32(1), setUps.Load())
	w.stepUntil(time.Second, "both are connected", func() bool { return w.get(keyA).Connected && w.get(keyC).Connected })
	require.Equal(t, int32(2), setUps.Load())
	require.Same(t, w.get(keyA).Value, w.get(keyC).Value)
	require.Equal(t, 2, w.sessions(runs[0]))
}
