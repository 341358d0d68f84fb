package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// Rollouts looks up the MachineSet that owns a Machine, by its owner reference, and the MachineDeployment that the set's label
// contract.DeploymentNameLabel names. It is made for the ports of a Reconciler:
//
//	rollouts, err := machine.RolloutFromManager(mgr, sets, deployments)
//	ports.RolloutOf, ports.RolloutEvents = rollouts.Of, rollouts.Source
//
// It reads a cache, and needs list and watch of both kinds. Safe for concurrent use.
type Rollouts struct {
	cache       cache.Cache
	sets        contract.MachineSetKind
	deployments contract.MachineDeploymentKind

	listed atomic.Bool // both kinds are completely in the cache, and stay
}

// RolloutFromManager returns the Rollouts of a manager's cache. The kinds define how MachineSets and MachineDeployments are read, for
// example contract.Unstructured(gvk, contract.MachineSetV1Beta2()). The error names what is wrong with them.
func RolloutFromManager(mgr ctrl.Manager, sets contract.MachineSetKind, deployments contract.MachineDeploymentKind) (*Rollouts, error) {
	return RolloutFromCache(mgr.GetCache(), sets, deployments)
}

// RolloutFromCache is RolloutFromManager for any cache, which the caller starts.
func RolloutFromCache(c cache.Cache, sets contract.MachineSetKind, deployments contract.MachineDeploymentKind) (*Rollouts, error) {
	return &Rollouts{cache: c, sets: sets, deployments: deployments},
		errors.Join(engine.CheckKind("the kind of MachineSet", sets), engine.CheckKind("the kind of MachineDeployment", deployments))
}

// Of implements Ports.RolloutOf. It makes no request and does not block: an object that is not in the cache yet is Unread, and a set or a
// deployment that does not exist is not Found. Its states are views that must not be changed.
func (r *Rollouts) Of(ctx context.Context, state *contract.MachineState) (Rollout, error) {
	owner, owned := r.ownerOf(state)
	if !owned {
		return Rollout{}, nil
	}
	known, err := r.synced(ctx)
	if err != nil || !known {
		return Rollout{Unread: true}, err
	}
	var found Rollout
	set := types.NamespacedName{Namespace: state.Key.Namespace, Name: owner.Name}
	there, err := read(ctx, r.cache, r.sets, set, &found.Set)
	if err != nil || !there || found.Set.UID != owner.UID {
		return Rollout{}, err
	}
	name := found.Set.Labels[contract.DeploymentNameLabel]
	if name == "" {
		return Rollout{}, nil
	}
	deployment := types.NamespacedName{Namespace: state.Key.Namespace, Name: name}
	there, err = read(ctx, r.cache, r.deployments, deployment, &found.Deployment)
	if err != nil || !there {
		return Rollout{}, err
	}
	found.Found = true
	return found, nil
}

// ownerOf returns the reference to the MachineSet of a Machine, of whatever version.
func (r *Rollouts) ownerOf(state *contract.MachineState) (metav1.OwnerReference, bool) {
	at := slices.IndexFunc(state.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == r.sets.GVK.Kind && engine.Group(ref.APIVersion) == r.sets.GVK.Group
	})
	if at < 0 {
		return metav1.OwnerReference{}, false
	}
	return state.OwnerReferences[at], true
}

// synced reports whether both kinds are completely in the cache.
func (r *Rollouts) synced(ctx context.Context) (bool, error) {
	if r.listed.Load() {
		return true, nil
	}
	for _, obj := range []client.Object{engine.NewObject(r.sets), engine.NewObject(r.deployments)} {
		informer, err := r.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			return false, nil // the kind is not installed (yet)
		}
		if err != nil {
			return false, fmt.Errorf("watch %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, err)
		}
		if !informer.HasSynced() {
			return false, nil
		}
	}
	r.listed.Store(true)
	return true, nil
}

// read fills a state from the cache, and returns false when the object does not exist.
func read[S, U any](ctx context.Context, c client.Reader, kind contract.KindOf[S, U], key types.NamespacedName, into *S) (bool, error) {
	obj := engine.NewObject(kind)
	err := c.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s %s: %w", kind.GVK.Kind, key, err)
	}
	return true, kind.Adapter.Read(obj, into)
}

// Source implements Ports.RolloutEvents: it wakes the Machines of a MachineDeployment when the deployment or one of its MachineSets is
// created, deleted or asks for other Machines. Changes of their replicas and their status wake no Machine. A kind that is not installed is
// looked for again every ten seconds.
func (r *Rollouts) Source(machines RolloutMapper) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		wakes := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
			return inRolloutOf(obj, machines)
		})
		sets := source.Kind(r.cache, engine.NewObject(r.sets), wakes, rolloutChanges(r.sameSet))
		deployments := source.Kind(r.cache, engine.NewObject(r.deployments), wakes, rolloutChanges(r.sameDeployment))
		// A kind that is not installed must not delay the controller.
		go r.wakeAll(ctx, q, map[client.Object]source.Source{engine.NewObject(r.sets): sets,
			engine.NewObject(r.deployments): deployments}, machines)
		return nil
	})
}

// notInstalledRetry: discovery has no events.
const notInstalledRetry = 10 * time.Second

// wakeAll starts each source when its kind is installed: one that is started before logs an error until then. It wakes the Machines of all
// deployments when both kinds are listed: earlier passes could not decide. It waits for these two only: WaitForSync of a source waits for
// all kinds in the cache.
func (r *Rollouts) wakeAll(ctx context.Context, q queue, sources map[client.Object]source.Source, machines RolloutMapper) {
	err := wait.PollUntilContextCancel(ctx, notInstalledRetry, true, func(ctx context.Context) (bool, error) {
		for kind, events := range sources {
			if r.isInstalled(ctx, kind) {
				delete(sources, kind)
				if err := events.Start(ctx, q); err != nil {
					return false, err
				}
			}
		}
		if len(sources) > 0 {
			return false, nil
		}
		_, sets := r.cache.GetInformer(ctx, engine.NewObject(r.sets)) // it waits until the kind is listed
		_, deployments := r.cache.GetInformer(ctx, engine.NewObject(r.deployments))
		return sets == nil && deployments == nil, nil
	})
	if err != nil {
		return // the context has ended
	}
	list := engine.NewList(r.deployments)
	if r.cache.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return // it fails only when the cache is stopping
	}
	_ = engine.EachObject(list, func(obj client.Object) { // it returns no error of its own
		for _, request := range inRolloutOf(obj, machines) {
			q.Add(request)
		}
	})
}

// isInstalled reports whether a kind can be watched, and logs an error that says anything else than that it is not installed.
func (r *Rollouts) isInstalled(ctx context.Context, kind client.Object) bool {
	_, err := r.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil && !meta.IsNoMatchError(err) {
		log.FromContext(ctx).Error(err, "Rollouts cannot be watched", "kind", kind.GetObjectKind().GroupVersionKind().Kind)
	}
	return err == nil
}

// inRolloutOf returns the Machines of the deployment that obj is, or that it belongs to. A deployment itself does not have the label with
// its own name; it may have the label with the name of another object that created it.
func inRolloutOf(obj client.Object, machines RolloutMapper) []reconcile.Request {
	requests := machines(client.ObjectKeyFromObject(obj))
	if label := obj.GetLabels()[contract.DeploymentNameLabel]; label != "" && label != obj.GetName() {
		requests = append(requests, machines(types.NamespacedName{Namespace: obj.GetNamespace(), Name: label})...)
	}
	return requests
}

// rolloutChanges passes the changes that may affect the decision whether Machines are up to date. same compares the specs.
func rolloutChanges(same func(old, now client.Object) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool { return !sameRollout(e.ObjectOld, e.ObjectNew, same) }}
}

// sameRollout reports whether a change does not affect the decision whether Machines are up to date. same compares the specs.
func sameRollout(old, now client.Object, same func(old, now client.Object) bool) bool {
	return old.GetUID() == now.GetUID() && (old.GetGeneration() == now.GetGeneration() || same(old, now)) &&
		old.GetLabels()[contract.DeploymentNameLabel] == now.GetLabels()[contract.DeploymentNameLabel] &&
		old.GetAnnotations()[contract.RevisionAnnotation] == now.GetAnnotations()[contract.RevisionAnnotation] &&
		old.GetAnnotations()[rollout.MadeForAnnotation] == now.GetAnnotations()[rollout.MadeForAnnotation]
}

// sameSet reports whether a change of the spec of a set does not affect that decision. A rollout changes the replicas of sets often.
func (r *Rollouts) sameSet(old, now client.Object) bool {
	var a, b contract.MachineSetState
	return errors.Join(r.sets.Adapter.Read(old, &a), r.sets.Adapter.Read(now, &b)) == nil &&
		len(templateDiff(&a.Template.MachineSpec, &b.Template.MachineSpec)) == 0
}

// sameDeployment is sameSet for deployments.
func (r *Rollouts) sameDeployment(old, now client.Object) bool {
	var a, b contract.MachineDeploymentState
	return errors.Join(r.deployments.Adapter.Read(old, &a), r.deployments.Adapter.Read(now, &b)) == nil &&
		len(templateDiff(&a.Template.MachineSpec, &b.Template.MachineSpec)) == 0 && a.RolloutAfter.Equal(b.RolloutAfter)
}
