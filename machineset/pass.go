package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// pass is one pass over one set: what was read, what was decided, and the means to act.
type pass struct {
	env   *Reconciler
	set   contract.Object // as read, or as the last write has returned it; never changed
	state contract.MachineSetState
	now   time.Time
	again time.Duration

	selector labels.Selector
	cluster  external.ClusterView
	// candidates are the Machines that the set controls or may come to control, from a cache that has seen everything up to seen; empty
	// when it cannot say. unsure: whether it shows all of them is not known.
	candidates []*member
	seen       string
	unsure     bool
	// observed are the Machines of the set; counted says that they were read.
	observed  []*member
	counted   bool
	templates templates
	holds     []scale.Hold
	decision  scale.Decision
	trouble   trouble

	pausedCondition *metav1.Condition
	paused          bool // the set is paused, or that is unknown
	waiting         bool // what was read is too old to say anything
	finished        bool // the set is gone
}

// trouble is what went wrong with single Machines, which does not hold up the others, and what cannot be read of the set.
type trouble struct {
	claim, deletion []error
	selector        error
}

// member is a Machine of the set.
type member struct {
	obj   contract.Object // a view
	state *contract.MachineState
}

// run observes, decides and acts. Nothing is decided after an observation that failed; one that only creation depends on holds that.
func (p *pass) run(ctx context.Context) error {
	if err := p.observeCluster(ctx); err != nil || p.paused {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	ledger, err := p.observeMachines(ctx)
	if err != nil || p.waiting {
		return err
	}
	return errors.Join(errors.Join(p.trouble.claim...), p.observeTemplates(ctx), p.observeHolds(ctx), p.syncMachines(ctx), p.scale(ctx, ledger))
}

// requeue asks for another pass at the latest then.
func (p *pass) requeue(after time.Duration) { p.again = soonest(p.again, after) }

// wait ends the pass without a word about anything: what was read is too old.
func (p *pass) wait() {
	p.waiting = true
	p.requeue(behindRetry)
}

// prepare gives the set its finalizer and its place in its cluster before it makes anything.
func (p *pass) prepare(ctx context.Context) error {
	if !p.state.Deleting.IsZero() {
		return nil
	}
	var u contract.MachineSetUpdate
	if f := p.env.options.Finalizer; !slices.Contains(p.state.Finalizers, f) {
		u.Finalizers = contract.SetTo(append(slices.Clone(p.state.Finalizers), f))
	}
	if name := p.state.ClusterName; name != "" && p.state.Labels[contract.ClusterNameLabel] != name {
		u.Labels = map[string]contract.Change[string]{contract.ClusterNameLabel: contract.SetTo(name)}
	}
	if err := p.ownedByCluster(ctx, &u); err != nil {
		return err
	}
	if changesNothing(u.MetadataUpdate) {
		return nil
	}
	return p.writeMain(ctx, u)
}

// ownedByCluster has the Cluster own the set. Of a set that was led before, the Cluster may just have let go: then the API server is
// asked whether it stays.
func (p *pass) ownedByCluster(ctx context.Context, u *contract.MachineSetUpdate) error {
	owners, changed := p.clusterOwns()
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

// clusterOwns returns the owner references of a set without an owner, with the Cluster among them. Rule: Cluster API's shouldAdopt; a set
// that names a deployment waits for the deployment to adopt it.
func (p *pass) clusterOwns() ([]metav1.OwnerReference, bool) {
	if !p.clusterStays() {
		return nil, false
	}
	if _, child := p.state.Labels[contract.DeploymentNameLabel]; child {
		return nil, false
	}
	version, kind := p.cluster.GVK.ToAPIVersionAndKind()
	ref := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: p.cluster.State.Key.Name, UID: p.cluster.State.UID}
	for _, have := range p.state.OwnerReferences {
		isCluster := have.Kind == kind && groupOf(have.APIVersion) == p.cluster.GVK.Group
		if (have.Controller != nil && *have.Controller) || (isCluster && (have.Name != ref.Name || have.UID == ref.UID)) {
			return nil, false
		}
	}
	return contract.WithOwner(p.state.OwnerReferences, ref), true // in place of one of that name which is gone
}

// clusterStays reports whether there is a Cluster that can own something: one in deletion is about to let go of what it owns.
func (p *pass) clusterStays() bool {
	return p.cluster.Presence == external.Present && !p.cluster.GVK.Empty() && p.cluster.State.UID != "" && p.cluster.State.Deleting.IsZero()
}

// writeMain writes metadata of the set with the resourceVersion that was read, and continues with the answer.
func (p *pass) writeMain(ctx context.Context, u contract.MachineSetUpdate) error {
	contents, err := patch.Apply(p.env.kinds.Set, p.set, u)
	if err != nil {
		return err
	}
	written := newObject(p.env.kinds.Set)
	if err := p.env.writer.Send(ctx, p.set, written, contents.Main(), false, true); err != nil {
		return fmt.Errorf("write %s %s: %w", p.env.kinds.Set.GVK.Kind, p.state.Key, err)
	}
	p.set = written
	return p.env.kinds.Set.Adapter.Read(written, &p.state)
}

// owner is the reference by which the set controls its Machines. The GVK is the Kind's, because typed objects from a cache have
// none.
func (p *pass) owner(controls bool) metav1.OwnerReference {
	version, kind := p.env.kinds.Set.GVK.ToAPIVersionAndKind()
	ref := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: p.state.Key.Name, UID: p.state.UID}
	if controls {
		ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	}
	return ref
}

func (p *pass) states() []*contract.MachineState {
	all := make([]*contract.MachineState, 0, len(p.observed))
	for _, m := range p.observed {
		all = append(all, m.state)
	}
	return all
}

// machines are the members as a plan sees them.
func (p *pass) machines() []scale.Machine {
	all := make([]scale.Machine, 0, len(p.observed))
	asked := p.mem().asked
	for _, m := range p.observed {
		one := scale.Of(m.state, p.state.UID)
		one.Deleting = one.Deleting || asked[one.UID]
		all = append(all, one)
	}
	return all
}

func (p *pass) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.state.Key.Namespace, Name: name}
}
