package machine

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// queue is the queue that a Source receives.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// nodeEvents wakes Machines on events of the Nodes and the drains of workload clusters: it starts their sources when a pass first uses a
// connection, and ends them when there is another connection or none. It is a controller-runtime Source, because a Source receives the
// queue. Safe for concurrent use.
type nodeEvents struct {
	// mapper returns the Machines of a cluster that an event about a Node concerns.
	mapper func(ctx context.Context, cluster types.NamespacedName) nodeindex.Mapper
	// machines returns all Machines of a cluster.
	machines func(ctx context.Context, cluster types.NamespacedName) []reconcile.Request

	mu       sync.Mutex
	followed map[types.NamespacedName]followed
	ctx      context.Context //nolint:containedctx // the life of the source: events have no context of their own
	queue    queue
}

type followed struct {
	nodes Nodes
	end   context.CancelFunc
}

// Start implements controller-runtime's Source. It does not block.
func (n *nodeEvents) Start(ctx context.Context, q queue) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ctx, n.queue = ctx, q
	return nil
}

// String names the source in logs.
func (n *nodeEvents) String() string { return "Nodes of workload clusters" }

// follow listens to the current connection of a cluster. It is cheap when the connection is unchanged.
func (n *nodeEvents) follow(cluster types.NamespacedName, w Workload) {
	if w.Nodes != nil && !reflect.TypeOf(w.Nodes).Comparable() {
		return // it could not be compared with the next one
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.followed[cluster]
	if n.queue == nil || before.nodes == w.Nodes {
		return
	}
	if before.end != nil {
		before.end()
		delete(n.followed, cluster)
	}
	if w.Nodes == nil {
		return
	}
	ctx, end := context.WithCancel(n.ctx)
	n.followed[cluster] = followed{nodes: w.Nodes, end: end}
	go n.listen(ctx, n.queue, cluster, w)
}

// listen starts the sources of a connection, and wakes all Machines of its cluster when its Nodes are known. A source that starts reports
// every existing Node, which a pass must not wait for.
func (n *nodeEvents) listen(ctx context.Context, q queue, cluster types.NamespacedName, w Workload) {
	if drainer, ok := w.Drainer.(interface{ Source() source.Source }); ok {
		if err := drainer.Source().Start(ctx, q); err != nil {
			return // its context has ended: starting only passes the queue on
		}
	}
	nodes, ok := w.Nodes.(interface {
		Source(nodeindex.Mapper) source.SyncingSource
	})
	if !ok {
		return
	}
	events := nodes.Source(n.mapper(ctx, cluster))
	if events.Start(ctx, q) != nil || events.WaitForSync(ctx) != nil {
		return
	}
	for _, request := range n.machines(ctx, cluster) {
		q.Add(request)
	}
}

// inCluster returns the Machines of a workload cluster, for a source of connection events. When there are none, the Machines of this
// Reconciler no longer need the cluster's Nodes, and it stops listening to them.
func (r *Reconciler) inCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	requests := r.machinesByKey(ctx, cluster.Namespace, clusterKey(cluster))
	if len(requests) == 0 {
		r.nodeEvents.follow(cluster, Workload{})
	}
	return requests
}

// wakenBy maps events about the Nodes of a cluster to its Machines. An event without a relevant change wakes none.
func (r *Reconciler) wakenBy(ctx context.Context, cluster types.NamespacedName) nodeindex.Mapper {
	return func(e nodeindex.Event) []reconcile.Request {
		if !noderef.SignificantTo(e.Old, e.New, r.options.Propagation.Concerns) {
			return nil
		}
		return r.machinesOfNode(ctx, cluster, e.Old, e.New)
	}
}
