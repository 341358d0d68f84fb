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
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Scope is one pass over one MachinePool. It embeds a pass.Scope: State is the pool, Assert sets a condition, ChangeAnnotation and the
// other Set functions change the pool at the end of the pass, and Requeue requests another pass. Only the worker that runs the pass uses
// it.
type Scope struct {
	engine.Scope[contract.MachinePoolState, contract.MachinePoolUpdate]

	env      *Reconciler
	deletion contract.Deletion // the progress of the deletion
	failure  engine.Failure    // the failure that a referenced object reports

	bootstrap, infrastructure external.Object
	// complete: the provider lists exactly the instances in State.ProviderIDs. These count in this pass; while a list is held, they are not
	// the stored ones.
	complete bool

	workload   cluster.Workload
	nodesKnown bool
	unread     external.Problem // why the Nodes are unknown
	instances  instances
	waiting    string // what the first unfinished drain waits for, as the end of a message
	problems   problems
	missed     string // why the pool may have unknown Nodes; empty when all are known

	// machineKind is the kind of the InfraMachines that represent instances, empty without them.
	machineKind string
	machines    *machines // nil while no Machines represent instances, or they are unknown
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
// be deleted and leak its instances. A pool that has changed its Cluster is held.
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

// nameReplicas sets the number of replicas of a pool that has none and no other component that sets it to that of its instances or Nodes.
func (p *Scope) nameReplicas(ctx context.Context) error {
	if p.State.ReplicasManagedElsewhere() {
		return nil
	}
	observed, known := p.State.ObservedReplicas.Get()
	there := max(observed, int32(len(p.State.Nodes))) //nolint:gosec // memory limits the number
	return p.NameReplicas(ctx, &p.State.ReplicatedState, &p.Update.ReplicatedUpdate, there, !known && there == 0)
}

// removeFinalizerStep completes a deletion.
func removeFinalizerStep(_ context.Context, p *Scope) (Result, error) {
	p.Wait(contract.ReasonDeletionCompleted, "Deletion completed")
	p.RemoveFinalizer()
	return Result{}, nil
}

// recollection is the memory of a process about one pool between passes. Losing it costs time and requests, never correctness. It belongs
// to the worker that reconciles the pool.
type recollection struct {
	// requested are the deletions of Machines, Nodes and referenced objects that caches do not show yet.
	requested engine.Deletions
	// draining are the names of the Nodes that workload drains, each with the start of the wait for its volumes; zero before.
	draining map[string]time.Time
	workload cluster.Workload
	// unread is the time since which something that was read before cannot be read; nodesUnread is the time since which some Nodes are
	// unknown; zero otherwise.
	unread, nodesUnread time.Time
}

func (p *Scope) mem() *recollection { return p.env.memory.Of(p.State.Key, p.State.UID) }

// release stops the drains, and the waits for volumes, of all Nodes except those in keep.
func (r *recollection) release(keep sets.Set[string]) {
	for node := range r.draining {
		if !keep.Has(node) {
			r.workload.Release(node)
			delete(r.draining, node)
		}
	}
}

// countUnread records the time since which some Nodes are unknown.
func (r *recollection) countUnread(unread bool, now time.Time) {
	if r.nodesUnread = cmp.Or(r.nodesUnread, now); !unread {
		r.nodesUnread = time.Time{}
	}
}

// forgetRequests limits the memory of a pool that is not being deleted to existing Machines. It drops deletions of referenced objects: a
// pool that was restored from a backup must request them again.
func (p *Scope) forgetRequests() {
	if p.Deleting() || (p.env.kinds.makesMachines() && p.machines == nil) {
		return
	}
	p.mem().requested.Keep(func(uid types.UID) bool {
		return p.machines != nil && slices.ContainsFunc(p.machines.own, func(m machine) bool { return m.UID == uid })
	})
}
