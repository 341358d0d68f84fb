package machinepool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// Scope is one pass over one MachinePool. It embeds the Scope of package pass: State is the pool, Assert sets a condition, ChangeAnnotation
// and the other Set functions change the pool at the end of the pass, and Requeue requests another pass. Only the worker that runs the
// pass uses it.
type Scope struct {
	engine.Scope[contract.MachinePoolState, contract.MachinePoolUpdate]

	env      *Reconciler
	deletion contract.Deletion // how far the deletion is
	failure  engine.Failure    // what an object reports that the pool refers to
	// observed: the steps that read what the status is made of have run.
	observed bool

	bootstrap, infrastructure external.Object
	// complete: the provider lists the instances whose IDs State.ProviderIDs are, and no others. These are those that count in this pass;
	// while a list is held, they are not those that are stored.
	complete bool

	workload   Workload
	nodesKnown bool
	unread     external.Problem // why the Nodes are not known
	instances  instances
	waiting    string // what the first Node waits for whose drain is not over, as the end of a message
	problems   problems
	missed     string // why there may be Nodes of the pool that are not known; empty when all are

	// machineKind is the kind of the InfraMachines that represent instances, empty without them.
	machineKind string
	machines    *machines // nil while no Machines represent instances, or they are not known
}

// begin completes a Scope before the first step.
func begin(ctx context.Context, p *Scope) {
	p.ReadCluster(ctx)
	p.deletion = contract.DeletionOf(&p.State.Metadata, nil, p.Now)
}

// pauseStep ends the pass of a paused pool, and cancels its queued evictions.
func pauseStep(_ context.Context, p *Scope) (Result, error) {
	result, err := p.StopIfPaused()
	if p.IsTrue(contract.ConditionPaused) {
		p.mem().release(nil)
	}
	return result, err
}

// finalizerStep stores the finalizer, the label and the owner of a pool before anything else is changed: a pool without a finalizer could
// vanish and leave its instances behind. A pool that has joined another Cluster is held.
func finalizerStep(ctx context.Context, p *Scope) (Result, error) {
	label := p.State.Labels[contract.ClusterNameLabel]
	if label != "" && label != p.State.ClusterName && slices.Contains(p.State.Finalizers, p.env.frame.Finalizer) {
		return p.Pause(metav1.ConditionUnknown, contract.ReasonClusterChanged, fmt.Sprintf("%s, or remove its label %s if it never had that one",
			engine.ClusterChanged(p.env.frame.Kind.GVK.Kind, p.Common(), label), contract.ClusterNameLabel)), nil
	}
	p.recordDeletion()
	result, err := p.Keep(ctx)
	if err == nil {
		err = p.nameReplicas(ctx)
	}
	return result, err
}

// nameReplicas names how many instances, or Nodes, there are in a pool without a number that no other component names.
func (p *Scope) nameReplicas(ctx context.Context) error {
	if p.State.ReplicasManagedElsewhere() {
		return nil
	}
	observed, known := p.State.ObservedReplicas.Get()
	there := max(observed, int32(len(p.State.Nodes))) //nolint:gosec // so many fit into memory
	return p.NameReplicas(ctx, &p.State.ReplicatedState, &p.Update.ReplicatedUpdate, there, !known && there == 0)
}

// removeFinalizerStep completes a deletion.
func removeFinalizerStep(_ context.Context, p *Scope) (Result, error) {
	p.Wait(contract.ReasonDeletionCompleted, "Deletion completed")
	p.RemoveFinalizer()
	return Result{}, nil
}

// recollection is what a process remembers about one pool between passes. Losing it costs time and requests, never correctness. It belongs
// to the worker that reconciles the pool.
type recollection struct {
	// requested are the deletions of Machines, Nodes and referenced objects that caches do not show yet.
	requested engine.Deletions
	// draining are the names of the Nodes that workload drains, each with since when its volumes are waited for; zero before.
	draining map[string]time.Time
	workload Workload
	// unread is since when something has not been read that was read before, and nodesUnread since when not all Nodes are known; zero
	// otherwise.
	unread, nodesUnread time.Time
}

func (p *Scope) mem() *recollection { return p.env.memory.Of(p.State.Key, p.State.UID) }

// release stops the drains of all Nodes, and the waits for their volumes, except those to keep.
func (r *recollection) release(keep sets.Set[string]) {
	for node := range r.draining {
		if !keep.Has(node) {
			r.workload.Release(node)
			delete(r.draining, node)
		}
	}
}

// detaches records that volumes of a Node are waited for, and returns since when.
func (r *recollection) detaches(node string, now time.Time) time.Time {
	r.draining[node] = cmp.Or(r.draining[node], now)
	return r.draining[node]
}

// countUnread records since when not all Nodes are known.
func (r *recollection) countUnread(unread bool, now time.Time) {
	if r.nodesUnread = cmp.Or(r.nodesUnread, now); !unread {
		r.nodesUnread = time.Time{}
	}
}

// forgetRequests limits the memory of a pool that lives to existing Machines. Such a pool has requested no deletion of what it refers to:
// one that was restored from a backup has to request it again.
func (p *Scope) forgetRequests() {
	if p.Deleting() || (p.env.kinds.makesMachines() && p.machines == nil) {
		return
	}
	p.mem().requested.Keep(func(uid types.UID) bool {
		return p.machines != nil && slices.ContainsFunc(p.machines.own, func(m machine) bool { return m.UID == uid })
	})
}
