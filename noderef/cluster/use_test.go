package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

func (w *world) use(mapped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mapped = func(types.NamespacedName) bool { return mapped }
}

func (w *world) links() int {
	w.clusters.mu.RLock()
	defer w.clusters.mu.RUnlock()
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
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	w.reach(keyA, s)
	w.connected(keyA)
	for range 12 {
		w.clock.Step(10 * time.Minute)
		w.holds("the connection stays", func() bool { return w.links() == 1 })
	}
	require.Equal(t, 1, w.links())
	w.connected(keyA) // again, where a step has cut a probe short
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
	w.eventually("connected", func() bool { return w.get(keyA).Connected })
	w.clusters.Forget(keyA)
	require.Equal(t, keyA, <-ended)
}

func TestASetupThatDoesNotReturnIsCancelledAndRetried(t *testing.T) {
	s, calls := newAPIServer(t), make(chan struct{}, 10)
	w := newWorld(t, Options[*nodes]{Setup: func(ctx context.Context, c *Connection) (*nodes, error) {
		calls <- struct{}{}
		if len(calls) == 1 {
			<-ctx.Done()
		}
		return &nodes{}, nil
	}})
	w.reach(keyA, s)
	w.get(keyA)
	w.eventually("Setup runs", func() bool { return len(calls) == 1 })
	w.clock.Step(30 * time.Second) // ConnectTimeout
	require.ErrorContains(t, w.becomes(keyA, ReasonSetupFailed), "no answer within 30s")
	w.stepUntil(time.Second, "connected", func() bool { return w.get(keyA).Connected })
}

// lateClock is a clock on which the ConnectTimeout passes while its timer is stopped: the timer's function has not run yet.
type lateClock struct {
	clock.WithDelayedExecution
	connectTimeout time.Duration
	passes         atomic.Bool
}

func (c *lateClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	timer := c.WithDelayedExecution.AfterFunc(d, f)
	if d != c.connectTimeout {
		return timer
	}
	return &lateTimer{Timer: timer, clock: c}
}

type lateTimer struct {
	clock.Timer
	clock *lateClock
}

func (t *lateTimer) Stop() bool { return t.Timer.Stop() && !t.clock.passes.CompareAndSwap(true, false) }

func TestAConnectionWhoseSetupReturnsAtItsDeadlineIsBuiltAgain(t *testing.T) {
	const deadline = 31 * time.Second // no other timer has this duration
	late := &lateClock{connectTimeout: deadline}
	var setUps atomic.Int32
	w := newWorld(t, Options[*nodes]{connectTimeout: deadline, Setup: func(context.Context, *Connection) (*nodes, error) {
		late.passes.Store(setUps.Add(1) == 1)
		return &nodes{}, nil
	}})
	late.WithDelayedExecution = w.clock
	w.clusters.options.Clock = late
	w.reach(keyA, newAPIServer(t))
	w.get(keyA)
	w.eventually("Setup has returned", func() bool { return w.get(keyA).Reason != ReasonConnecting })
	_, err := w.clusters.Get(keyA)
	require.ErrorContains(t, err, "no answer within 31s")
	w.stepUntil(time.Second, "connected", func() bool { return w.get(keyA).Connected })
	require.Equal(t, int32(2), setUps.Load())
}
