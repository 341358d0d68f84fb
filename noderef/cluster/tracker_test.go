package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
)

// sourced are Nodes that write down who listens to them.
type sourced struct {
	*noderef.Index

	mu        sync.Mutex
	listeners []context.Context
	mapper    NodeMapper
	synced    chan struct{}
}

func newSourced() *sourced {
	return &sourced{Index: noderef.NewIndex(noderef.Rules{}), synced: make(chan struct{})}
}

func (s *sourced) HasSynced() bool { return true }

func (s *sourced) Source(mapper NodeMapper) source.SyncingSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mapper = mapper
	return s
}

func (s *sourced) Start(ctx context.Context, _ queue) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, ctx)
	return nil
}

func (s *sourced) WaitForSync(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// heard reports whether so many have ever listened, and so many still do.
func (s *sourced) heard(ever, now int) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		ended := len(slices.DeleteFunc(slices.Clone(s.listeners), func(ctx context.Context) bool { return ctx.Err() == nil }))
		return len(s.listeners) == ever && len(s.listeners)-ended == now
	}
}

// silent are Nodes without a source of events.
type silent struct{ Nodes }

// objects are those of each cluster. Safe for concurrent use.
type objects struct {
	mu sync.Mutex
	of map[types.NamespacedName][]string
}

func (o *objects) set(key types.NamespacedName, names ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[key] = names
}

func (o *objects) inCluster(_ context.Context, key types.NamespacedName) []reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return requests(o.of[key]...)
}

func requests(names ...string) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(names))
	for _, name := range names {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return all
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func TestOneConnectionIsListenedToOnceAndForAsLongAsItIsThere(t *testing.T) {
	key := named("c")
	known := &objects{of: map[types.NamespacedName][]string{key: {"m"}}}
	n := NewTracker(TrackerConfig{InCluster: known.inCluster})
	first, second := newSourced(), newSourced()
	n.follow(key, Workload{Nodes: first})
	require.Empty(t, n.followed, "there is no queue yet")
	queue := newQueue(t)
	require.NoError(t, n.start(t.Context(), queue))

	for range 3 {
		n.follow(key, Workload{Nodes: first})
	}
	require.Eventually(t, first.heard(1, 1), time.Minute, time.Millisecond)
	require.Zero(t, queue.Len())
	close(first.synced)
	require.Eventually(t, func() bool { return queue.Len() == 1 }, time.Minute, time.Millisecond, "the first list is there")

	n.follow(key, Workload{Nodes: second})
	require.Eventually(t, second.heard(1, 1), time.Minute, time.Millisecond)
	require.True(t, first.heard(1, 0)())
	n.follow(key, Workload{})
	require.True(t, second.heard(1, 0)())
	require.Empty(t, n.followed)
}

func TestNodesOfAClusterAreListenedToOnlyWhileAnObjectHasThem(t *testing.T) {
	key, other := named("c"), named("d")
	known := &objects{of: map[types.NamespacedName][]string{key: {"pool"}, other: {"pool"}}}
	n := NewTracker(TrackerConfig{InCluster: known.inCluster})
	queue := newQueue(t)
	require.NoError(t, n.start(t.Context(), queue))
	nodes, elsewhere := newSourced(), newSourced()
	close(nodes.synced)
	n.follow(key, Workload{Nodes: nodes})
	woken, _ := queue.Get()
	require.Equal(t, requests("pool")[0], woken, "its Nodes are known now")
	n.follow(other, Workload{Nodes: elsewhere})
	require.Eventually(t, elsewhere.heard(1, 1), time.Minute, time.Millisecond)
	require.Equal(t, requests("pool"), n.inCluster(t.Context(), key))
	require.True(t, nodes.heard(1, 1)(), "it is followed already")

	known.set(key)
	require.Empty(t, n.inCluster(t.Context(), key))
	require.True(t, nodes.heard(1, 0)())
	n.mu.Lock()
	defer n.mu.Unlock()
	require.NotContains(t, n.followed, key)
	require.Contains(t, n.followed, other)
	require.True(t, elsewhere.heard(1, 1)())
}

func TestAnObjectThatAppearsWhileItsClusterIsFoundUnusedIsFollowed(t *testing.T) {
	key := named("c")
	var n *Tracker
	var pass sync.WaitGroup
	n = NewTracker(TrackerConfig{InCluster: func(context.Context, types.NamespacedName) []reconcile.Request {
		begun := make(chan struct{})
		pass.Go(func() { // over an object that the answer lacks
			close(begun)
			n.follow(key, Workload{Nodes: newSourced()})
		})
		<-begun
		return nil
	}})
	require.NoError(t, n.start(t.Context(), newQueue(t)))
	require.Empty(t, n.inCluster(t.Context(), key), "the cluster is unused")
	pass.Wait()
	require.Contains(t, n.followed, key)
}

// drains is a Drainer with events of its own.
type drains struct {
	Drainer
	started chan struct{}
}

func (d *drains) Source() source.Source {
	return source.Func(func(context.Context, queue) error {
		d.started <- struct{}{}
		return nil
	})
}

func TestEventsOfDrainsWakeObjectsOfTheirCluster(t *testing.T) {
	known := &objects{of: map[types.NamespacedName][]string{}}
	drainer := &drains{started: make(chan struct{}, 2)}
	n := NewTracker(TrackerConfig{
		Own: Workload{Nodes: newSourced(), Drainer: drainer}, InCluster: known.inCluster,
		NodesOf: func(types.NamespacedName) (Workload, error) {
			return Workload{Nodes: newSourced(), Drainer: drainer, Client: interceptor.NewClient(nil, interceptor.Funcs{})}, nil
		},
		Events: func(Mapper) source.Source {
			return source.Func(func(context.Context, queue) error { return nil })
		},
	})
	queue := newQueue(t)
	sources := n.Sources(t.Context())
	require.Len(t, sources, 4, "Nodes, drains, workload clusters, connections")
	for _, events := range sources {
		require.NoError(t, events.Start(t.Context(), queue))
	}
	within(t, drainer.started, "of the own cluster")
	_, err := n.Of(named("c"))
	require.NoError(t, err)
	within(t, drainer.started, "of a workload cluster")
	require.Empty(t, NewTracker(TrackerConfig{Own: Workload{Nodes: silent{}}}).Sources(t.Context()), "neither has events")
}

func within(t *testing.T, happens <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(time.Minute):
		t.Fatal("not listened to: " + what)
	}
}

func TestAnEventOfANodeWakesObjectsIfItMatters(t *testing.T) {
	nodes, asked := newSourced(), 0
	n := NewTracker(TrackerConfig{
		Own: Workload{Nodes: nodes},
		OfNode: func(_ context.Context, key types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request {
			require.Equal(t, types.NamespacedName{}, key)
			require.Len(t, nodes, 2)
			asked++
			return requests("m")
		},
	})
	require.Len(t, n.Sources(t.Context()), 1)
	node := func(label string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"l": label}}}
	}
	unchanged := node("a")
	unchanged.ResourceVersion = "2"
	require.Empty(t, nodes.mapper(NodeEvent{Old: node("a"), New: unchanged}))
	require.Zero(t, asked)
	require.Equal(t, requests("m"), nodes.mapper(NodeEvent{Old: node("a"), New: node("b")}))
	require.Equal(t, requests("m"), nodes.mapper(NodeEvent{New: node("b")}), "it has joined")
}

func TestAWorkloadIsLookedUpByTheNameOfItsCluster(t *testing.T) {
	own := Workload{Nodes: newSourced(), Client: interceptor.NewClient(nil, interceptor.Funcs{})}
	lost := fmt.Errorf("c: %w", ErrNotConnected)
	none := NewTracker(TrackerConfig{Kind: "Machine"})
	require.Equal(t, types.NamespacedName{}, none.ClusterOf("ns", "c"), "all Nodes are those of the own cluster")
	_, err := none.Of(types.NamespacedName{})
	require.ErrorIs(t, err, ErrNoCluster)
	require.EqualError(t, err,
		"the object names no cluster, and this controller has none of its own: name the cluster of the Machine")

	n := NewTracker(TrackerConfig{Own: own, NodesOf: func(key types.NamespacedName) (Workload, error) {
		switch key.Name {
		case "lost":
			return Workload{}, lost
		case "empty":
			return Workload{}, nil
		}
		return Workload{Nodes: own.Nodes, Client: own.Client, UID: "u"}, nil
	}})
	require.Equal(t, types.NamespacedName{}, n.ClusterOf("ns", ""))
	require.Equal(t, named("c"), n.ClusterOf("ns", "c"))
	w, err := n.Of(types.NamespacedName{})
	require.NoError(t, err)
	require.Equal(t, own, w)
	w, err = n.Of(named("c"))
	require.NoError(t, err)
	require.Equal(t, types.UID("u"), w.UID)
	_, err = n.Of(named("lost"))
	require.ErrorIs(t, err, ErrNotConnected)
	_, err = n.Of(named("empty"))
	require.ErrorContains(t, err, "NodesOf has no Nodes or no Client for cluster ns/empty")
	require.False(t, IsUnread(err))
}

func TestOnlyWhatEndsWithAnEventIsUnread(t *testing.T) {
	for err, want := range map[error]bool{
		ErrNotConnected: true, ErrNotSynced: true, ErrNoCluster: true,
		errors.New("no idea"): false, context.Canceled: false, runner.ErrNotListed: false,
	} {
		require.Equal(t, want, IsUnread(fmt.Errorf("wrapped: %w", err)), err)
	}
	require.False(t, IsUnread(nil))
}

func TestUnread(t *testing.T) {
	require.Equal(t, "Waiting for the first list of Nodes", Unread(types.NamespacedName{}, nil))
	require.Equal(t, "Waiting for the first list of Nodes of cluster ns/c", Unread(named("c"), nil))
	require.Equal(t, "no", Unread(named("c"), errors.New("no")))
}
