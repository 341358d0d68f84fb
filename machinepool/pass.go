package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
)

// pass is one pass over one pool: what was read, what was decided, and the means to act.
type pass struct {
	env   *Reconciler
	pool  contract.Object // as read, or as the last write has returned it; never changed
	state contract.MachinePoolState
	now   time.Time
	again time.Duration

	// main and status are the updates to write, and asserted the conditions.
	main, status contract.MachinePoolUpdate
	asserted     []metav1.Condition
	failures     []finding
	// unhidden: the status says something that must not wait.
	unhidden bool
	paused   bool // the pool is paused, or that is unknown
	finished bool // the pool is gone

	cluster                    external.ClusterView
	bootstrap, infrastructure  external.Object
	infraState                 contract.InfraMachinePoolState
	bootstrapReady, infraReady bool
	// bootstrapRead and infraRead: what the object says is known, also that it says nothing.
	bootstrapRead, infraRead bool
	// ids are the instances, and complete says that they are all of them.
	ids      []string
	complete bool
	replicas contract.Opt[int32]

	workload   Workload
	nodesKnown bool
	unread     external.Problem // why Nodes are not known
	match      matching
	attached   map[string]string // the Nodes without pods whose volumes are waited for, and what is said of them
	missed     string            // why recorded Nodes that the index does not have are not taken for gone; empty when they are

	// machineKind is the kind of the InfraMachines that represent instances, empty without.
	machineKind string
	same        sameness
	machines    *machines // nil while no Machines represent instances, or they are not known
}

func (p *pass) deleting() bool { return !p.state.Deleting.IsZero() }

func (p *pass) mem() *recollection { return p.env.memory.of(p.state.Key, p.state.UID) }

// requeue asks for another pass at the latest then.
func (p *pass) requeue(after time.Duration) { p.again = soonest(p.again, after) }

// assert sets a condition, in place of one of its type.
func (p *pass) assert(c metav1.Condition) {
	at := slices.IndexFunc(p.asserted, func(have metav1.Condition) bool { return have.Type == c.Type })
	if at < 0 {
		p.asserted = append(p.asserted, c)
		return
	}
	p.asserted[at] = c
}

// run observes, decides and acts. A part that fails holds up only what depends on it.
func (p *pass) run(ctx context.Context) error {
	if err := p.observeCluster(ctx); err != nil || p.paused {
		return err
	}
	if p.deleting() {
		return p.delete(ctx)
	}
	p.assert(condition(ConditionDeleting, metav1.ConditionFalse, ReasonNotDeleting, ""))
	p.forgetDeletion()
	if err := p.prepare(ctx); err != nil {
		return err
	}
	err := errors.Join(p.observeBootstrap(ctx), p.observeInfrastructure(ctx), p.observeMachines(ctx), p.observeNodes(ctx))
	return errors.Join(err, p.actOnMachines(ctx), p.actOnNodes(ctx))
}

// observeCluster asks for the Cluster, and decides whether the pool is paused.
func (p *pass) observeCluster(ctx context.Context) error {
	key := types.NamespacedName{Namespace: p.state.Key.Namespace, Name: p.state.ClusterName}
	var err error
	if p.env.ports.ClusterOf != nil && p.state.ClusterName != "" {
		p.cluster, err = p.env.ports.ClusterOf(ctx, key)
		p.requeue(p.cluster.RetryAfter)
	}
	said, paused := decidePause(pauseFacts{
		Cluster: p.cluster, Key: key, Failed: err != nil, Kind: p.env.kinds.Pool.GVK.Kind, Annotated: p.state.Paused(), Deleting: p.deleting(),
	})
	p.paused = paused
	if c, found := said.Get(); found {
		p.assert(c)
		if c.Status == metav1.ConditionTrue {
			p.mem().release(nil) // queued evictions are cancelled too
		}
	}
	return err
}

// pauseFacts are the inputs of decidePause.
type pauseFacts struct {
	Cluster external.ClusterView
	Key     types.NamespacedName
	// Failed: the Cluster could not be looked up, and the error is retried.
	Failed              bool
	Kind                string
	Annotated, Deleting bool
}

// decidePause: a pool is paused while it or its Cluster asks for that. A Cluster that was not read may be paused. A pool whose Cluster
// does not exist is not reconciled, but can be deleted: no Cluster is left that could pause it.
func decidePause(f pauseFacts) (said contract.Opt[metav1.Condition], paused bool) {
	say := func(status metav1.ConditionStatus, reason, message string) contract.Opt[metav1.Condition] {
		return contract.Some(condition(ConditionPaused, status, reason, message))
	}
	var causes []string
	if f.Cluster.State.SpecPaused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if f.Annotated {
		causes = append(causes, f.Kind+" has the "+contract.PausedAnnotation+" annotation")
	}
	unread := f.Failed || f.Cluster.Presence == external.Unread || f.Cluster.Presence == external.KindMissing
	switch {
	case len(causes) > 0:
		return say(metav1.ConditionTrue, ReasonPaused, strings.Join(causes, ", ")), true
	case unread && !f.Failed && f.Cluster.Problem != (external.Problem{}):
		return say(metav1.ConditionUnknown, f.Cluster.Problem.Reason, f.Cluster.Problem.Message), true
	case unread:
		return contract.Opt[metav1.Condition]{}, true
	case f.Cluster.Presence == external.Absent && !f.Deleting:
		return say(metav1.ConditionUnknown, ReasonClusterDoesNotExist, fmt.Sprintf(
			"Cluster %s does not exist: create it, or delete the %s", f.Key, f.Kind)), true
	}
	return say(metav1.ConditionFalse, ReasonNotPaused, ""), false
}

// ownedByCluster has the Cluster own the pool. Of a pool that was led before, the Cluster may just have let go: then the API server is
// asked whether it stays.
func (p *pass) ownedByCluster(ctx context.Context, u *contract.MachinePoolUpdate) error {
	if p.cluster.Presence != external.Present || p.cluster.GVK.Empty() || p.cluster.State.UID == "" || !p.cluster.State.Deleting.IsZero() {
		return nil
	}
	version, kind := p.cluster.GVK.ToAPIVersionAndKind()
	owners, changed := ownedByCluster(p.state.OwnerReferences, metav1.OwnerReference{
		APIVersion: version, Kind: kind, Name: p.cluster.State.Key.Name, UID: p.cluster.State.UID,
	})
	if !changed {
		return nil
	}
	if u.Finalizers.Keeps() {
		if stays, err := p.cluster.Stays(ctx, p.env.ports.APIReader); err != nil || !stays {
			return err
		}
	}
	u.OwnerReferences = contract.SetTo(owners)
	return nil
}

// prepare gives the pool its finalizer and its place in its cluster before anything outside is touched: a pool without a finalizer
// could vanish and leave instances behind.
func (p *pass) prepare(ctx context.Context) error {
	var u contract.MachinePoolUpdate
	if f := p.env.options.Finalizer; !slices.Contains(p.state.Finalizers, f) {
		u.Finalizers = contract.SetTo(append(slices.Clone(p.state.Finalizers), f))
	}
	if name := p.state.ClusterName; name != "" && p.state.Labels[contract.ClusterNameLabel] != name {
		u.Labels = map[string]contract.Change[string]{contract.ClusterNameLabel: contract.SetTo(name)}
	}
	if err := p.ownedByCluster(ctx, &u); err != nil {
		return err
	}
	if u.Finalizers.Keeps() && u.OwnerReferences.Keeps() && len(u.Labels) == 0 {
		return nil
	}
	return p.writeMain(ctx, u)
}

// writeMain writes metadata and spec of the pool with the resourceVersion that was read, and continues with the answer: the status that
// follows was decided on that version, and must not be written on top of another one.
func (p *pass) writeMain(ctx context.Context, u contract.MachinePoolUpdate) error {
	contents, err := patch.Apply(p.env.kinds.Pool, p.pool, u)
	if err != nil {
		return err
	}
	document := contents.Main()
	if document.Empty() {
		return nil
	}
	written := newObject(p.env.kinds.Pool)
	if err := p.env.writer.Send(ctx, p.pool, written, document, false, true); err != nil {
		return fmt.Errorf("write %s %s: %w", p.env.kinds.Pool.GVK.Kind, p.state.Key, err)
	}
	var state contract.MachinePoolState // a fresh one: what was taken from the old one stays as it is
	if err := p.env.read(written, &state); err != nil {
		return err
	}
	p.pool, p.state = written, state
	return nil
}

// managedElsewhere reports whether another controller manages the number of replicas. A pool never writes it, so that the two do not
// conflict.
func (p *pass) managedElsewhere() bool {
	_, managed := autoscaler.ReplicasManagedElsewhere(p.state.Annotations)
	return managed
}
