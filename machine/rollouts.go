package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
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
		errors.Join(pass.CheckKind("the kind of MachineSet", sets), pass.CheckKind("the kind of MachineDeployment", deployments))
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
		return ref.Kind == r.sets.GVK.Kind && pass.Group(ref.APIVersion) == r.sets.GVK.Group
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
	return &rolloutSource{rollouts: r, machines: machines}
}

type rolloutSource struct {
	rollouts *Rollouts
	machines RolloutMapper
}

// String names the source in logs.
func (s *rolloutSource) String() string { return "MachineSets and MachineDeployments of Machines" }

// notInstalledRetry: discovery has no events.
const notInstalledRetry = 10 * time.Second

// Start implements controller-runtime's Source. It does not block.
func (s *rolloutSource) Start(ctx context.Context, q queue) error {
	go s.listen(ctx, q)
	return nil
}

// listen listens to both kinds, and wakes the Machines of all deployments when both are known: earlier passes could not decide.
func (s *rolloutSource) listen(ctx context.Context, q queue) {
	informers := make([]toolscache.InformerSynced, 0, 2)
	same := []func(old, now client.Object) bool{s.rollouts.sameSet, s.rollouts.sameDeployment}
	for i, obj := range s.rollouts.kinds() {
		err := wait.PollUntilContextCancel(ctx, notInstalledRetry, true, func(ctx context.Context) (bool, error) {
			informer, err := s.rollouts.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
			if err != nil {
				return false, nil //nolint:nilerr // the passes of Machines report it
			}
			_, err = informer.AddEventHandler(s.handler(q, same[i]))
			informers = append(informers, informer.HasSynced)
			return err == nil, nil
		})
		if err != nil {
			return // the context has ended
		}
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), informers...) {
		return
	}
	list, ok := s.rollouts.deployments.NewList().(client.ObjectList)
	if !ok || s.rollouts.cache.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	_ = pass.EachObject(list, func(obj client.Object) { s.wake(q, obj) }) // it returns no error of its own
}

// handler wakes the Machines of a deployment when one of its objects changes. same says whether both ask for the same Machines.
func (s *rolloutSource) handler(q queue, same func(old, now client.Object) bool) toolscache.ResourceEventHandler {
	wake := func(raw any) {
		if obj, ok := external.EventObject(raw); ok {
			s.wake(q, obj)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: wake,
		UpdateFunc: func(before, after any) {
			old, ok := before.(client.Object)
			now, ok2 := after.(client.Object)
			if ok && ok2 && !sameRollout(old, now, same) {
				wake(before)
				wake(after)
			}
		},
		DeleteFunc: wake,
	}
}

// sameRollout reports whether a change does not affect the decision whether Machines are up to date. same compares the specs.
func sameRollout(old, now client.Object, same func(old, now client.Object) bool) bool {
	return old.GetUID() == now.GetUID() && (old.GetGeneration() == now.GetGeneration() || same(old, now)) &&
		old.GetLabels()[contract.DeploymentNameLabel] == now.GetLabels()[contract.DeploymentNameLabel] &&
		old.GetAnnotations()[contract.RevisionAnnotation] == now.GetAnnotations()[contract.RevisionAnnotation]
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

// wake wakes the Machines of the deployment that obj is, or that it belongs to. A deployment itself does not have the label with its own
// name; it may have the label with the name of another object that created it.
func (s *rolloutSource) wake(q queue, obj client.Object) {
	names := []string{obj.GetName()}
	if label := obj.GetLabels()[contract.DeploymentNameLabel]; label != "" && label != obj.GetName() {
		names = append(names, label)
	}
	for _, name := range names {
		for _, request := range s.machines(types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}) {
			q.Add(request)
		}
	}
}
