package guard

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/children"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// facts are what the evaluation of the set depends on.
func (s *SetScope) facts(ctx context.Context) (safety.Set, error) {
	group := s.env.kinds.Set.GVK.Group
	facts := safety.Set{
		Freezing: safety.FreezingOf(group, &s.State.Metadata, s.State.Conditions), Unfreeze: safety.AsksToUnfreeze(group, &s.State.Metadata),
		Limits: s.env.options.Limits, Now: s.Now,
	}
	if desired, known := s.State.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	if err := s.readDeployment(ctx, &facts); err != nil {
		return facts, err
	}
	selector, err := children.Selector(s.State.Selector, s.State.Common(), contract.SetNameLabel)
	if err != nil { // a set whose selector cannot be read creates nothing; what it controls counts
		selector = labels.Nothing()
	}
	seen := map[types.UID]bool{}
	add := func(obj client.Object) {
		if !seen[obj.GetUID()] {
			seen[obj.GetUID()] = true
			facts.Machines = append(facts.Machines, safety.Member{
				Created: obj.GetCreationTimestamp().Time, Deleting: obj.GetDeletionTimestamp() != nil,
			})
		}
	}
	if err := s.env.eachMachine(ctx, s.State.Key.Namespace, ownerKey(s.State.UID), add); err != nil {
		return facts, err
	}
	for _, key := range []string{freeKey, nameKey(s.State.Key.Name)} { // the set may adopt them
		err := s.env.eachMachine(ctx, s.State.Key.Namespace, key, func(obj client.Object) {
			if selector.Matches(labels.Set(obj.GetLabels())) {
				add(obj)
			}
		})
		if err != nil {
			return facts, err
		}
	}
	return facts, nil
}

// readDeployment reads what the deployment of the set may have with its surge. A set whose deployment is gone has none.
func (s *SetScope) readDeployment(ctx context.Context, facts *safety.Set) error {
	frame, owner := s.env.deployments, metav1.GetControllerOfNoCopy(s.Object)
	if frame == nil || owner == nil || owner.Kind != frame.Kind.GVK.Kind || pass.Group(owner.APIVersion) != frame.Kind.GVK.Group {
		return nil
	}
	key, obj := types.NamespacedName{Namespace: s.State.Key.Namespace, Name: owner.Name}, pass.NewObject(frame.Kind)
	err := frame.Ports.Cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	switch {
	case external.SaysGone(err) || (err == nil && obj.GetUID() != owner.UID):
		return nil
	case err != nil:
		return fmt.Errorf("read %s %s: %w", owner.Kind, key, err)
	}
	var d contract.MachineDeploymentState
	facts.Deployment = true
	if err := frame.Read(obj, &d); err != nil { // a person has to correct it; the set stays as it is
		return nil //nolint:nilerr // the reconciler of deployments reports it
	}
	facts.Unfreeze = facts.Unfreeze || safety.AsksToUnfreeze(frame.Kind.GVK.Group, &d.Metadata)
	if desired, known := d.Replicas.Get(); known {
		surge := 0
		if strategy, err := rollout.Resolve(rollout.Type(d.RolloutType), d.MaxSurge, d.MaxUnavailable, int(max(desired, 0))); err == nil {
			surge = strategy.MaxSurge
		}
		facts.Ceiling = contract.Some(int(desired) + surge)
	}
	return nil
}

// Keys of the indexes.
const freeKey = "free"

func ownerKey(uid types.UID) string  { return "owner:" + string(uid) }
func nameKey(name string) string     { return "set:" + name }
func parentKey(uid types.UID) string { return "deployment:" + string(uid) }

// eachMachine passes each Machine under a key to a function, as a view.
func (f *Freezer) eachMachine(ctx context.Context, namespace, key string, do func(client.Object)) error {
	list := pass.NewList(f.kinds.Machine)
	err := f.sets.Ports.Cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{f.sets.IndexName(): key},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list %s objects: %w", f.kinds.Machine.GVK.Kind, err)
	}
	return pass.EachObject(list, do)
}

// Index registers the indexes with the cache. AddToManager calls it.
func (f *Freezer) Index(ctx context.Context) error {
	err := f.sets.Index(ctx, func(s *contract.MachineSetState) []string {
		keys := pass.ReferenceKeys(types.NamespacedName{Namespace: s.Key.Namespace, Name: s.ClusterName})
		for _, ref := range s.OwnerReferences {
			if pass.IsController(ref) {
				keys = append(keys, parentKey(ref.UID))
			}
		}
		return keys
	})
	if err != nil {
		return err
	}
	if f.deployments != nil {
		if err := f.deployments.Index(ctx, func(d *contract.MachineDeploymentState) []string {
			return pass.ReferenceKeys(types.NamespacedName{Namespace: d.Key.Namespace, Name: d.ClusterName})
		}); err != nil {
			return err
		}
	}
	return f.sets.IndexOther(ctx, pass.NewObject(f.kinds.Machine), f.kinds.Machine.GVK.Kind, func(obj client.Object) []string {
		owner := metav1.GetControllerOfNoCopy(obj)
		switch {
		case owner == nil:
			return []string{freeKey}
		case len(f.sets.ControllerOf(obj)) > 0:
			return []string{ownerKey(owner.UID), nameKey(owner.Name)}
		}
		return nil
	})
}

// AddToManager registers the Freezer as one controller for each kind. Sets are evaluated when their Machines are created, deleted or change
// their owner, when they or their deployment change, and after FreezerOptions.Period.
func (f *Freezer) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := f.sets.Ports.CheckEvents(f.kinds.Set.GVK.Kind); err != nil {
		return err
	}
	if err := f.Index(ctx); err != nil {
		return err
	}
	sets := f.sets.Controller(ctx, mgr).Watches(pass.NewObject(f.kinds.Machine), handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, obj client.Object) []reconcile.Request { return f.sets.ControllerOf(obj) }), builder.WithPredicates(counts()))
	if f.deployments != nil {
		sets = sets.Watches(pass.NewObject(f.kinds.Deployment), handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, obj client.Object) []reconcile.Request {
				return f.sets.ByKey(ctx, obj.GetNamespace(), parentKey(obj.GetUID()))
			}), builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})))
	}
	if err := sets.Complete(f.Sets); err != nil || f.deployments == nil {
		return err
	}
	return f.deployments.Controller(ctx, mgr).Watches(pass.NewObject(f.kinds.Set), handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, obj client.Object) []reconcile.Request { return f.deployments.ControllerOf(obj) }),
		builder.WithPredicates(predicate.LabelChangedPredicate{})).Complete(f.Deployments)
}

// counts passes events that change how many Machines a set has.
func counts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		old, now := metav1.GetControllerOfNoCopy(e.ObjectOld), metav1.GetControllerOfNoCopy(e.ObjectNew)
		return (old == nil) != (now == nil) || (old != nil && old.UID != now.UID) ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}}
}
