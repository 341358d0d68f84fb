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
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Scope is one pass over one set: what was read, what was decided, and the means to act.
type Scope struct {
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
func (s *Scope) run(ctx context.Context) error {
	if err := s.observeCluster(ctx); err != nil || s.paused {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	ledger, err := s.observeMachines(ctx)
	if err != nil || s.waiting {
		return err
	}
	return errors.Join(errors.Join(s.trouble.claim...), s.observeTemplates(ctx), s.observeHolds(ctx), s.syncMachines(ctx), s.scale(ctx, ledger))
}

// requeue asks for another pass at the latest then.
func (s *Scope) requeue(after time.Duration) { s.again = pass.Soonest(s.again, after) }

// wait ends the pass without a word about anything: what was read is too old.
func (s *Scope) wait() {
	s.waiting = true
	s.requeue(behindRetry)
}

// prepare gives the set its finalizer and its place in its cluster before it makes anything.
func (s *Scope) prepare(ctx context.Context) error {
	if !s.state.Deleting.IsZero() {
		return nil
	}
	var u contract.MachineSetUpdate
	if f := s.env.options.Finalizer; !slices.Contains(s.state.Finalizers, f) {
		u.Finalizers = contract.SetTo(append(slices.Clone(s.state.Finalizers), f))
	}
	if name := s.state.ClusterName; name != "" && s.state.Labels[contract.ClusterNameLabel] != name {
		u.Labels = map[string]contract.Change[string]{contract.ClusterNameLabel: contract.SetTo(name)}
	}
	if err := s.ownedByCluster(ctx, &u); err != nil {
		return err
	}
	if changesNothing(u.MetadataUpdate) {
		return nil
	}
	return s.writeMain(ctx, u)
}

// ownedByCluster has the Cluster own the set. Of a set that was led before, the Cluster may just have let go: then the API server is
// asked whether it stays.
func (s *Scope) ownedByCluster(ctx context.Context, u *contract.MachineSetUpdate) error {
	owners, changed := pass.ClusterOwner(&s.state.Metadata, s.cluster, contract.DeploymentNameLabel)
	if !changed {
		return nil
	}
	if u.Finalizers.Keeps() {
		if stays, err := s.cluster.Stays(ctx, s.env.ports.APIReader); err != nil || !stays {
			return err
		}
	}
	u.OwnerReferences = contract.SetTo(owners)
	return nil
}

// clusterStays reports whether there is a Cluster that can own something: one in deletion is about to let go of what it owns.
func (s *Scope) clusterStays() bool {
	return s.cluster.Presence == external.Present && !s.cluster.GVK.Empty() && s.cluster.State.UID != "" && s.cluster.State.Deleting.IsZero()
}

// writeMain writes metadata of the set with the resourceVersion that was read, and continues with the answer.
func (s *Scope) writeMain(ctx context.Context, u contract.MachineSetUpdate) error {
	contents, err := patch.Apply(s.env.kinds.Set, s.set, u)
	if err != nil {
		return err
	}
	written := pass.NewObject(s.env.kinds.Set)
	if err := s.env.writer.Send(ctx, s.set, written, contents.Main(), false, true); err != nil {
		return fmt.Errorf("write %s %s: %w", s.env.kinds.Set.GVK.Kind, s.state.Key, err)
	}
	s.set = written
	return s.env.kinds.Set.Adapter.Read(written, &s.state)
}

// owner is the reference by which the set controls its Machines. The GVK is the Kind's, because typed objects from a cache have
// none.
func (s *Scope) owner(controls bool) metav1.OwnerReference {
	version, kind := s.env.kinds.Set.GVK.ToAPIVersionAndKind()
	ref := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: s.state.Key.Name, UID: s.state.UID}
	if controls {
		ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	}
	return ref
}

func (s *Scope) states() []*contract.MachineState {
	all := make([]*contract.MachineState, 0, len(s.observed))
	for _, m := range s.observed {
		all = append(all, m.state)
	}
	return all
}

// machines are the members as a plan sees them.
func (s *Scope) machines() []scale.Machine {
	all := make([]scale.Machine, 0, len(s.observed))
	asked := s.mem().asked
	for _, m := range s.observed {
		one := scale.Of(m.state, s.state.UID)
		one.Deleting = one.Deleting || asked[one.UID]
		all = append(all, one)
	}
	return all
}

func (s *Scope) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.state.Key.Namespace, Name: name}
}
