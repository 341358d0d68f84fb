package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
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
}

// RolloutFromManager returns the Rollouts of a manager's cache. The kinds define how MachineSets and MachineDeployments are read, for
// example contract.Unstructured(gvk, contract.MachineSetV1Beta2()). The error names what is wrong with them.
func RolloutFromManager(mgr ctrl.Manager, sets contract.MachineSetKind, deployments contract.MachineDeploymentKind) (*Rollouts, error) {
	return RolloutFromCache(mgr.GetCache(), sets, deployments)
}

// RolloutFromCache is RolloutFromManager for any cache, which the caller starts.
func RolloutFromCache(c cache.Cache, sets contract.MachineSetKind, deployments contract.MachineDeploymentKind) (*Rollouts, error) {
	return &Rollouts{cache: c, sets: sets, deployments: deployments},
		errors.Join(checkKind("MachineSet", sets), checkKind("MachineDeployment", deployments))
}

func checkKind[S, U any](name string, kind contract.KindOf[S, U]) error {
	if kind.New == nil || kind.NewList == nil || kind.Adapter == nil || kind.GVK.Empty() {
		return fmt.Errorf("the kind of %s needs a GVK, New, NewList and an Adapter", name)
	}
	if _, ok := kind.New().(client.Object); !ok {
		return fmt.Errorf("%s is no client.Object", kind.GVK)
	}
	return nil
}

// Of implements Ports.RolloutOf. It makes no request and does not block: an object that is not in the cache yet is Unread, and a set or a
// deployment that does not exist is not Found.
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
		return ref.Kind == r.sets.GVK.Kind && group(ref.APIVersion) == r.sets.GVK.Group
	})
	if at < 0 {
		return metav1.OwnerReference{}, false
	}
	return state.OwnerReferences[at], true
}

// synced reports whether both kinds are completely in the cache.
func (r *Rollouts) synced(ctx context.Context) (bool, error) {
	for _, obj := range r.kinds() {
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
	return true, nil
}

// kinds are empty objects of both kinds.
func (r *Rollouts) kinds() []client.Object {
	set, _ := r.sets.New().(client.Object) // the constructor has checked this
	deployment, _ := r.deployments.New().(client.Object)
	return []client.Object{set, deployment}
}

// read fills a state from the cache, and returns false when the object does not exist.
func read[S, U any](ctx context.Context, c client.Reader, kind contract.KindOf[S, U], key types.NamespacedName, into *S) (bool, error) {
	obj, _ := kind.New().(client.Object)
	err := c.Get(ctx, key, obj)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s %s: %w", kind.GVK.Kind, key, err)
	}
	return true, kind.Adapter.Read(obj, into)
}
