package cluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/noderef"
)

// TrackerConfig configures a Tracker for the objects of one reconciler.
type TrackerConfig struct {
	// Kind names the objects in errors, such as Machine.
	Kind string
	// Own is the access to the cluster of objects without a cluster name; without Nodes there is no such cluster.
	Own Workload
	// NodesOf returns the access to the cluster of an object; nil means that all Nodes are those of Own. It must not block.
	NodesOf func(cluster types.NamespacedName) (Workload, error)
	// Events returns a source that enqueues what the mapper returns for a cluster whenever the result of NodesOf for it changes. It is
	// required with NodesOf by Sources.
	Events func(Mapper) source.Source

	// OfNode returns the objects of a cluster that these Nodes affect; any of the Nodes may be nil. The zero name is that of Own.
	OfNode func(ctx context.Context, cluster types.NamespacedName, nodes ...*corev1.Node) []reconcile.Request
	// StatusOnly ignores changes of a Node's labels, annotations and taints; see noderef.Significant.
	StatusOnly bool
	// InCluster returns all objects of a cluster, from a cache. It must not call the Tracker.
	InCluster func(ctx context.Context, cluster types.NamespacedName) []reconcile.Request
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Tracker looks up the Workloads of objects, and enqueues objects on events of their Nodes and drains. It starts the sources of a workload
// cluster when its Workload is first looked up, and ends them when there is another connection, or no object of the cluster. Safe for
// concurrent use.
type Tracker struct {
	config TrackerConfig

	mu       sync.Mutex
	followed map[types.NamespacedName]followed
	ctx      context.Context //nolint:containedctx // the life of the source: events have no context of their own
	queue    queue
}

type followed struct {
	nodes Nodes
	end   context.CancelFunc
}

// NewTracker returns a Tracker. It makes no request.
func NewTracker(config TrackerConfig) *Tracker {
	return &Tracker{config: config, followed: map[types.NamespacedName]followed{}}
}

// ClusterOf returns the key for Of from the namespace of an object and the name of its cluster. It is the zero name for TrackerConfig.Own.
func (t *Tracker) ClusterOf(namespace, name string) types.NamespacedName {
	if t.config.NodesOf == nil || name == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Of returns the current access to a cluster, and starts the sources of its Nodes. It does not block. While the Nodes cannot be read, the
// error matches IsUnread, or it is nil and Nodes.HasSynced is false.
func (t *Tracker) Of(key types.NamespacedName) (Workload, error) {
	switch {
	case key != types.NamespacedName{}:
		w, err := t.config.NodesOf(key)
		t.follow(key, w)
		if err == nil && (w.Nodes == nil || w.Client == nil) {
			err = fmt.Errorf("NodesOf has no Nodes or no Client for cluster %s, and no error", key)
		}
		return w, err
	case t.config.Own.Nodes == nil:
		return Workload{}, fmt.Errorf("%w, and this controller has none of its own: name the cluster of the %s", ErrNoCluster, t.config.Kind)
	}
	return t.config.Own, nil
}

// Sources returns the sources for a controller (builder.WatchesRawSource). Mappers are called with ctx for events of TrackerConfig.Own and
// of connections.
func (t *Tracker) Sources(ctx context.Context) []source.Source {
	var sources []source.Source
	if nodes := t.nodesSource(ctx, types.NamespacedName{}, t.config.Own); nodes != nil {
		sources = append(sources, nodes)
	}
	if drains := drainsSource(t.config.Own); drains != nil {
		sources = append(sources, drains)
	}
	if t.config.NodesOf != nil {
		connections := t.config.Events(func(key types.NamespacedName) []reconcile.Request { return t.inCluster(ctx, key) })
		sources = append(sources, source.Func(t.start), connections)
	}
	return sources
}

// start stores the queue for the sources of workload clusters. It is a Source, because only a Source receives the queue.
func (t *Tracker) start(ctx context.Context, q queue) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.queue = ctx, q
	return nil
}

// nodesSource returns the source of Node events of a cluster; nil if its Nodes have none. Insignificant events enqueue no object.
func (t *Tracker) nodesSource(ctx context.Context, key types.NamespacedName, w Workload) source.SyncingSource {
	nodes, ok := w.Nodes.(interface {
		Source(NodeMapper) source.SyncingSource
	})
	if !ok {
		return nil
	}
	return nodes.Source(func(e NodeEvent) []reconcile.Request {
		if !noderef.Significant(e.Old, e.New, t.config.StatusOnly) {
			return nil
		}
		return t.config.OfNode(ctx, key, e.Old, e.New)
	})
}

// drainsSource returns the source of events about drains; nil when there is none.
func drainsSource(w Workload) source.Source {
	drainer, ok := w.Drainer.(interface{ Source() source.Source })
	if !ok {
		return nil
	}
	return drainer.Source()
}

// follow listens to the current connection of a cluster. It is cheap when the connection is unchanged.
func (t *Tracker) follow(key types.NamespacedName, w Workload) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil || t.followed[key].nodes == w.Nodes {
		return
	}
	t.end(key)
	if w.Nodes == nil {
		return
	}
	ctx, end := context.WithCancel(t.ctx)
	t.followed[key] = followed{nodes: w.Nodes, end: end}
	go t.listen(ctx, t.queue, key, w)
}

// listen starts the sources of a connection, and enqueues all objects of its cluster when its Nodes are synced. A starting source reports
// every existing Node, which a pass must not wait for.
func (t *Tracker) listen(ctx context.Context, q queue, key types.NamespacedName, w Workload) {
	if drains := drainsSource(w); drains != nil && drains.Start(ctx, q) != nil {
		return // its context has ended: Start only stores the queue
	}
	nodes := t.nodesSource(ctx, key, w)
	if nodes == nil || nodes.Start(ctx, q) != nil || nodes.WaitForSync(ctx) != nil {
		return
	}
	for _, request := range t.inCluster(ctx, key) {
		q.Add(request)
	}
}

// inCluster returns the objects of a workload cluster. When there are none, the Tracker stops listening to its Nodes. An object whose pass
// has called Of is in the cache that InCluster reads.
func (t *Tracker) inCluster(ctx context.Context, key types.NamespacedName) []reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	requests := t.config.InCluster(ctx, key)
	if len(requests) == 0 {
		t.end(key)
	}
	return requests
}

// end stops listening to a cluster. It requires mu.
func (t *Tracker) end(key types.NamespacedName) {
	if before, ok := t.followed[key]; ok {
		before.end()
		delete(t.followed, key)
	}
}
