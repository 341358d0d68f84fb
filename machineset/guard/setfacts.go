package guard

import (
	"context"
	"errors"
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
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/safety"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// setFacts are what the evaluation of a set depends on, but for its mark.
func (f *Freezer) setFacts(ctx context.Context, s *setScope) (safety.Set, error) {
	group := f.kinds.Set.GVK.Group
	facts := safety.Set{
		Freezing: safety.FreezingOf(group, &s.State.Metadata, s.State.Conditions), Unfreeze: safety.AsksToUnfreeze(group, &s.State.Metadata),
		Limits: f.options.Limits, Now: s.Now,
	}
	if desired, known := s.State.Replicas.Get(); known {
		facts.Desired = contract.Some(int(desired))
	}
	selector, err := children.Selector(s.State.Selector, s.State.Common(), contract.SetNameLabel)
	if err != nil { // a set whose selector cannot be read creates nothing; what it controls counts
		selector = labels.Nothing()
	}
	keys, errs := children.Keys(&s.State.Metadata), make([]error, 0, 4)
	errs = append(errs, f.readDeployment(ctx, s, &facts))
	for _, key := range keys { // the set may adopt those under the last two that live
		errs = append(errs, f.eachMachine(ctx, s.State.Key.Namespace, key, func(obj client.Object) {
			owner, goes := metav1.GetControllerOfNoCopy(obj), obj.GetDeletionTimestamp() != nil
			selected := selector.Matches(labels.Set(obj.GetLabels())) && (owner == nil || owner.UID != s.State.UID)
			released := owner == nil && obj.GetAnnotations()[scale.SetUIDAnnotation] == string(s.State.UID)
			if key == keys[0] || !goes && (selected || released) {
				facts.Machines = append(facts.Machines, safety.Member{Created: obj.GetCreationTimestamp().Time, Deleting: goes})
			}
		}))
	}
	return facts, errors.Join(errs...)
}

// readDeployment reads what the deployment of a set may have with its surge. A set whose deployment is gone has none.
func (f *Freezer) readDeployment(ctx context.Context, s *setScope, facts *safety.Set) error {
	owner := metav1.GetControllerOfNoCopy(s.Object)
	if f.deployments == nil || owner == nil || len(f.deployments.ControllerOf(s.Object)) == 0 {
		return nil
	}
	key, obj := types.NamespacedName{Namespace: s.State.Key.Namespace, Name: owner.Name}, engine.NewObject(f.deployments.Kind)
	err := f.deployments.Ports.Cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	switch {
	case external.SaysGone(err) || (err == nil && obj.GetUID() != owner.UID):
		return nil
	case err != nil:
		return fmt.Errorf("read %s %s: %w", owner.Kind, key, err)
	}
	var d contract.MachineDeploymentState
	facts.Deployment = true
	if err := f.deployments.Read(obj, &d); err != nil { // a person has to correct it; the set stays as it is
		return nil //nolint:nilerr // the reconciler of deployments reports it
	}
	facts.Unfreeze = facts.Unfreeze || safety.AsksToUnfreeze(f.deployments.Kind.GVK.Group, &d.Metadata)
	if desired, known := d.Replicas.Get(); known { // a surge that cannot be read is none
		strategy, _ := rollout.Resolve(rollout.Type(d.RolloutType), d.MaxSurge, d.MaxUnavailable, int(max(desired, 0)))
		facts.Ceiling = contract.Some(int(desired) + strategy.MaxSurge)
	}
	return nil
}

// parentKey is the key of the index of sets under which a deployment finds its own.
func parentKey(uid types.UID) string { return "deployment:" + string(uid) }

// eachMachine passes each Machine under a key to a function, as a view.
func (f *Freezer) eachMachine(ctx context.Context, namespace, key string, do func(client.Object)) error {
	list := engine.NewList(f.kinds.Machine)
	err := f.sets.Ports.Cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{f.sets.IndexName(): key},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list %s objects: %w", f.kinds.Machine.GVK.Kind, err)
	}
	return engine.EachObject(list, do)
}

// Index registers the indexes with the cache. AddToManager calls it.
func (f *Freezer) Index(ctx context.Context) error {
	cluster := func(m *contract.Metadata, name string) []string {
		return engine.ReferenceKeys(types.NamespacedName{Namespace: m.Key.Namespace, Name: name})
	}
	errs := []error{f.sets.Index(ctx, func(s *contract.MachineSetState) []string {
		keys := cluster(&s.Metadata, s.ClusterName)
		for _, ref := range s.OwnerReferences {
			if engine.IsController(ref) {
				keys = append(keys, parentKey(ref.UID))
			}
		}
		return keys
	})}
	if f.deployments != nil {
		errs = append(errs, f.deployments.Index(ctx, func(d *contract.MachineDeploymentState) []string {
			return cluster(&d.Metadata, d.ClusterName)
		}))
	}
	return errors.Join(append(errs, f.sets.IndexOther(ctx, engine.NewObject(f.kinds.Machine), f.kinds.Machine.GVK.Kind,
		func(obj client.Object) []string { return children.KeysOf(obj, f.sets.ControllerOf) }))...)
}

// AddToManager registers the Freezer as one controller for each kind. Sets are evaluated when their Machines are created, deleted or change
// their owner, when they or their deployment change, and after FreezerOptions.Period. Machines that change together cause one pass.
func (f *Freezer) AddToManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := f.sets.Ports.CheckEvents(f.kinds.Set.GVK.Kind); err != nil {
		return err
	}
	if err := f.Index(ctx); err != nil {
		return err
	}
	sets := f.sets.Controller(ctx, mgr).Watches(engine.NewObject(f.kinds.Machine), children.Gathered(
		func(_ context.Context, obj client.Object) []reconcile.Request { return f.sets.ControllerOf(obj) }), builder.WithPredicates(counts()))
	if f.deployments != nil {
		sets = sets.Watches(engine.NewObject(f.kinds.Deployment), handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, obj client.Object) []reconcile.Request {
				return f.sets.ByKey(ctx, obj.GetNamespace(), parentKey(obj.GetUID()))
			}), builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})))
	}
	if err := sets.Complete(f.Sets); err != nil || f.deployments == nil {
		return err
	}
	return f.deployments.Controller(ctx, mgr).Watches(engine.NewObject(f.kinds.Set), handler.EnqueueRequestsFromMapFunc(
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
