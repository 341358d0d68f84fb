package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// Reconciler looks after pools of one kind. Safe for concurrent use.
type Reconciler struct {
	kinds     Kinds
	ports     Ports
	options   Options
	tracker   *external.Tracker
	writer    *patch.Writer
	memory    *memory
	workloads *workload.Tracker
	// tellsSelector: the kind has a place for the selector.
	tellsSelector bool
}

// New returns a Reconciler. It reports everything that is wrong with its inputs at once and makes no request.
func New(kinds Kinds, ports Ports, options Options) (*Reconciler, error) {
	options = options.withDefaults(kinds.Pool)
	policy := options.Policy.DrainPolicy
	if err := errors.Join(kinds.validate(), ports.validate(), contract.CheckVersions(options.ContractVersions...), policy.Validate()); err != nil {
		return nil, fmt.Errorf("machine pool reconciler for %s: %w", cmp.Or(kinds.Pool.GVK.Kind, "a kind without a name"), err)
	}
	r := &Reconciler{kinds: kinds, ports: ports, options: options, memory: newMemory(), tellsSelector: keepsSelector(kinds.Pool)}
	r.tracker = external.NewTracker(ports.Cache, r.poolsOf, "kinds that MachinePools refer to", options.ContractVersions...)
	r.writer = patch.NewWriter(ports.Client, options.Clock)
	r.workloads = r.newTracker()
	return r, nil
}

const (
	// behindRetry is a safety net: the event that shows our own write wakes the pool first.
	behindRetry = 5 * time.Second
	// conflictRetry is a safety net too: the event that shows what the conflict was with wakes the pool first.
	conflictRetry = time.Second
)

// Reconcile implements controller-runtime's Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pool := newObject(r.kinds.Pool)
	err := r.ports.Cache.Get(ctx, request.NamespacedName, pool, client.UnsafeDisableDeepCopy) // a pass only looks at it
	if apierrors.IsNotFound(err) {
		r.memory.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", r.kinds.Pool.GVK.Kind, request.NamespacedName, err)
	}
	return r.ReconcileObject(ctx, pool)
}

// ReconcileObject makes one pass over a pool that the caller has read, and does not change it. Call it from a loop of your own in
// place of Reconcile, and IndexPools once before the cache starts.
func (r *Reconciler) ReconcileObject(ctx context.Context, pool contract.Object) (reconcile.Result, error) {
	p := &pass{env: r, pool: pool, now: r.options.Clock.Now()}
	if err := r.read(pool, &p.state); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if !r.matchesWatchFilter(pool) || (p.deleting() && !slices.Contains(p.state.Finalizers, r.options.Finalizer)) {
		r.memory.forget(p.state.Key)
		return reconcile.Result{}, nil // another controller's, or one that we are done with
	}
	if r.writer.Behind(pool) {
		return reconcile.Result{RequeueAfter: behindRetry}, nil
	}
	p.ids, p.replicas = p.state.ProviderIDs, p.state.ObservedReplicas
	err := p.run(ctx)
	err = errors.Join(err, p.flush(ctx, err != nil))
	if p.finished && err == nil {
		r.memory.forget(p.state.Key)
	}
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: p.again}, nil
	case patch.Retryable(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{}, err
}

// matchesWatchFilter reports whether this Reconciler reconciles a pool.
func (r *Reconciler) matchesWatchFilter(obj metav1.Object) bool {
	return r.options.WatchFilter == "" || obj.GetLabels()[contract.WatchFilterLabel] == r.options.WatchFilter
}

func newObject[S, U any](kind contract.KindOf[S, U]) client.Object {
	obj, _ := kind.New().(client.Object) // New made sure
	return obj
}

func newList[S, U any](kind contract.KindOf[S, U]) client.ObjectList {
	list, _ := kind.NewList().(client.ObjectList) // New made sure
	return list
}

// read reads a pool. One whose spec names no cluster belongs to that of its label. Rule: Cluster API's page on the MachinePool
// controller, "Expected labels".
func (r *Reconciler) read(pool contract.Object, into *contract.MachinePoolState) error {
	if err := r.kinds.Pool.Adapter.Read(pool, into); err != nil {
		return err
	}
	into.ClusterName = cmp.Or(into.ClusterName, into.Labels[contract.ClusterNameLabel])
	return nil
}

// newTracker returns what looks up the Workloads of pools, and wakes pools on events of their Nodes and drains.
func (r *Reconciler) newTracker() *workload.Tracker {
	return workload.NewTracker(workload.Config{
		Kind: "MachinePool", Own: r.ports.Workload.Or(r.ports.Client, r.ports.APIReader), NodesOf: r.ports.NodesOf, Events: r.ports.WorkloadEvents,
		OfNode: r.poolsOfNode, Concerns: r.concerns, InCluster: r.inCluster,
	})
}

// clusterOf is the workload cluster of a pool; the zero name is that of Ports.Workload.
func (r *Reconciler) clusterOf(state *contract.MachinePoolState) types.NamespacedName {
	return r.workloads.ClusterOf(state.Key.Namespace, state.ClusterName)
}

// inCluster returns the pools of a cluster.
func (r *Reconciler) inCluster(ctx context.Context, cluster types.NamespacedName) []reconcile.Request {
	return r.poolsByKey(ctx, cluster.Namespace, clusterKey(cluster))
}

// concerns says whether a change of labels, annotations or taints is of interest. What a pool says itself on a Node is: a pass that came
// before its event has left the Node alone.
func (r *Reconciler) concerns(old, updated *corev1.Node) bool {
	leaving := r.options.Policy.Leaving
	return r.options.Propagation.Concerns(old, updated) || leaving(old) != leaving(updated) ||
		slices.ContainsFunc(marks(), func(key string) bool { return old.Annotations[key] != updated.Annotations[key] })
}
