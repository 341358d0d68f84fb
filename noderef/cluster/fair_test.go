package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAHundredHangingClustersDoNotKeepAnotherOneFromBeingConnected(t *testing.T) {
	w, hanging, healthy := newWorld(t, Options[*nodes]{}), newAPIServer(t), newAPIServer(t)
	hanging.hang()
	for i := range 100 {
		key := types.NamespacedName{Namespace: "hanging", Name: fmt.Sprint(i)}
		w.reach(key, hanging)
		w.get(key)
	}
	w.eventually("all are waited for", func() bool { return hanging.pending("GET /readyz") == 100 })
	w.reach(keyA, healthy)
	w.connected(keyA)
	require.Equal(t, 100, hanging.pending("GET /readyz"), "and still are: the clock stands")
	require.Equal(t, 100, hanging.count(""), "each was asked once")
}

func TestAHundredClustersWithOneThatIsSlowToSetUpGetTheirTurn(t *testing.T) {
	s, slow := newAPIServer(t), make(chan struct{})
	var setUp atomic.Int32
	w := newWorld(t, Options[*nodes]{Setup: func(ctx context.Context, c *Connection) (*nodes, error) {
		if c.Key == keyA {
			select {
			case <-slow:
			case <-ctx.Done():
			}
		}
		setUp.Add(1)
		return &nodes{}, nil
	}})
	w.reach(keyA, s)
	w.get(keyA)
	for i := range 100 {
		key := types.NamespacedName{Namespace: "quick", Name: fmt.Sprint(i)}
		w.reach(key, s)
		w.get(key)
	}
	w.eventually("all others are connected", func() bool { return setUp.Load() == 100 })
	close(slow)
	w.eventually("and it, too", func() bool { return w.get(keyA).Reason == "" })
}

// reconciler patches one Node of the cluster that a request names.
type reconciler struct {
	w    *world
	done atomic.Int32 // requests for B that are done
	late atomic.Int32 // requests for A that failed at once because A was known to be lost
}

func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := types.NamespacedName{Namespace: "default", Name: request.Namespace}
	view, err := r.w.clusters.Get(key)
	if err == nil {
		err = patchNode(r.w.t, view.Cluster.GetClient(), "n1")
	}
	switch {
	case key == keyB && err == nil:
		r.done.Add(1)
	case errors.Is(err, ErrNotConnected):
		r.late.Add(1)
	}
	return reconcile.Result{}, nil
}

func TestAClusterThatHangsDoesNotSlowTheMachinesOfAnother(t *testing.T) {
	const workers, machines = 2, 200
	// Requests for A end with its connection, not by the steps of the clock, which are many on a busy machine: B is not taken for silent.
	const long = 1000 * time.Hour
	w, a, b := newWorld(t, Options[*nodes]{timeout: long}), newAPIServer(t), newAPIServer(t)
	a.put("n1")
	b.put("n1")
	w.reach(keyA, a)
	w.reach(keyB, b)
	w.connected(keyA)
	w.connected(keyB)
	a.hang()

	r := &reconciler{w: w}
	c, err := controller.NewUnmanaged("machines", controller.Options{
		Reconciler: r, MaxConcurrentReconciles: workers, SkipNameValidation: new(true), UsePriorityQueue: new(false),
		LogConstructor: func(*reconcile.Request) logr.Logger { return logr.Discard() },
	})
	require.NoError(t, err)
	events := make(chan reconcile.Request, 2*machines)
	for i := range machines {
		events <- reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: fmt.Sprint(i)}}
	}
	for i := range machines {
		events <- reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "b", Name: fmt.Sprint(i)}}
	}
	require.NoError(t, c.Watch(channelSource(events)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Start(ctx)
	}()

	w.eventually("all workers are caught", func() bool { return a.pending("PATCH") == workers })
	w.clock.Step(3 * time.Second) // Patience, once
	w.stepUntil(time.Second, "A is known to be lost", func() bool { return w.get(keyA).Reason == ReasonUnreachable })
	w.eventually("all Machines of B are done", func() bool { return r.done.Load() == machines })
	require.Equal(t, workers, a.count("PATCH"), "no Machine of A took a worker after that")
	require.GreaterOrEqual(t, r.late.Load(), int32(machines-workers), "they failed at once")
	cancel()
	<-ended
}
