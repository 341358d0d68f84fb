package machinepool

import (
	"context"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/nodeindex"
)

// queue is what a Source is handed.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// nodeEvents has the Nodes and the drains of workload clusters wake pools: it starts their sources when a pass meets a connection for
// the first time, and ends them when there is another one or none. It is a controller-runtime Source, because that is how a queue is
// handed over. Safe for concurrent use.
type nodeEvents struct {
	reconciler *Reconciler

	mu       sync.Mutex
	followed map[types.NamespacedName]followed
	ctx      context.Context //nolint:containedctx // the life of the source: events have no context of their own
	queue    queue
}

type followed struct {
	nodes Nodes
	end   context.CancelFunc
}

func newNodeEvents(r *Reconciler) *nodeEvents {
	return &nodeEvents{reconciler: r, followed: map[types.NamespacedName]followed{}}
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

// follow listens to what a cluster has now. It costs a look when that is what it had before.
func (n *nodeEvents) follow(cluster types.NamespacedName, w Workload) {
	if w.Nodes != nil && !reflect.TypeOf(w.Nodes).Comparable() {
		return // one could not tell whether it is the same
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

// listen starts the sources of a connection, and wakes all pools of its cluster when its Nodes are known. Starting tells of every Node
// that is there, which a pass must not wait for.
func (n *nodeEvents) listen(ctx context.Context, q queue, cluster types.NamespacedName, w Workload) {
	if drainer, ok := w.Drainer.(interface{ Source() source.Source }); ok {
		if err := drainer.Source().Start(ctx, q); err != nil {
			return // its context has ended: starting only hands the queue over
		}
	}
	nodes, ok := w.Nodes.(interface {
		Source(nodeindex.Mapper) source.SyncingSource
	})
	if !ok {
		return
	}
	events := nodes.Source(n.reconciler.wakenBy(ctx, cluster))
	if events.Start(ctx, q) != nil || events.WaitForSync(ctx) != nil {
		return
	}
	for _, request := range n.reconciler.inCluster(ctx, cluster) {
		q.Add(request)
	}
}

// inCluster returns the pools of a workload cluster, for a source of connection events. When there are none, the Reconciler stops
// listening to the cluster's Nodes.
func (r *Reconciler) inCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	requests := r.poolsByKey(ctx, cluster.Namespace, clusterKey(cluster))
	if len(requests) == 0 {
		r.events.follow(cluster, Workload{})
	}
	return requests
}

// wakenBy maps events about the Nodes of a cluster to its pools, those that change nothing of interest to none.
func (r *Reconciler) wakenBy(ctx context.Context, cluster types.NamespacedName) nodeindex.Mapper {
	return func(e nodeindex.Event) []reconcile.Request {
		if !noderef.SignificantTo(e.Old, e.New, r.concerns) {
			return nil
		}
		return r.poolsOfNode(ctx, cluster, e.Old, e.New)
	}
}

// concerns says whether a change of labels, annotations or taints is of interest. What a pool says itself on a Node is: a pass that came
// before its event has left the Node alone.
func (r *Reconciler) concerns(old, updated *corev1.Node) bool {
	leaving := r.options.Policy.Leaving
	return r.options.Propagation.Concerns(old, updated) || leaving(old) != leaving(updated) ||
		slices.ContainsFunc(marks(), func(key string) bool { return old.Annotations[key] != updated.Annotations[key] })
}
