package children

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// freeKey is the key of children without a controller.
const freeKey = "free"

// nameKey is the key of children that an owner of this name controls, whatever its UID.
func nameKey(name string) string { return "set:" + name }

// keysOf returns the keys of a child in that index.
func (f *Frame[S, U, CS, CU]) keysOf(child client.Object) []string {
	switch controller := metav1.GetControllerOfNoCopy(child); {
	case controller == nil:
		return []string{freeKey}
	case f.isOwner(controller, controller.Name):
		return []string{nameKey(controller.Name)}
	}
	return nil
}

// Index registers the index of children with the cache, under the name of the owner's own index. Call it once, before the cache starts.
func (f *Frame[S, U, CS, CU]) Index(ctx context.Context) error {
	return f.owner.IndexOther(ctx, engine.NewObject(f.kind), f.kind.GVK.Kind, f.keysOf)
}

// gather is how long an owner waits for further events of its children.
const gather = 100 * time.Millisecond

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Watched returns an empty object of the children's kind, whose events Events handles.
func (f *Frame[S, U, CS, CU]) Watched() client.Object { return engine.NewObject(f.kind) }

// Events enqueues the owner of a child, or the owners that may adopt it. Events of many children at once cause one pass.
func (f *Frame[S, U, CS, CU]) Events() handler.EventHandler { return Gathered(f.ownersOf) }

// Gathered enqueues whom an event concerns 100 ms later, so that events of many objects at once cause one pass. An update concerns those of
// the object before it too.
func Gathered(requests func(context.Context, client.Object) []reconcile.Request) handler.Funcs {
	wake := func(ctx context.Context, q queue, objects ...client.Object) {
		woken := map[reconcile.Request]bool{}
		for _, obj := range objects {
			for _, request := range requests(ctx, obj) {
				if !woken[request] {
					woken[request] = true
					q.AddAfter(request, gather)
				}
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, q, e.ObjectOld, e.ObjectNew) },
	}
}

// ownersOf returns the owner that controls a child, or those that may adopt it.
func (f *Frame[S, U, CS, CU]) ownersOf(ctx context.Context, child client.Object) []reconcile.Request {
	if metav1.GetControllerOfNoCopy(child) != nil {
		return f.owner.ControllerOf(child)
	}
	var requests []reconcile.Request
	_ = f.owner.Each(ctx, child.GetNamespace(), "", func(obj client.Object) { // fails only when the cache is stopping
		if !f.owner.MatchesWatchFilter(obj) {
			return
		}
		var owner S
		if f.owner.Read(obj, &owner) != nil {
			return
		}
		if selector, err := f.selector(&owner); err == nil && selector.Matches(labels.Set(child.GetLabels())) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	})
	return requests
}

// Selector returns the selector of an owner that selects children of its Cluster. Without labels and expressions of its own it selects the
// children whose label nameLabel has the owner's name. have is not changed. Rule: the defaults of Cluster API's webhooks and controllers
// for MachineSets and MachineDeployments.
func Selector(have *metav1.LabelSelector, owner contract.Common, nameLabel string) (labels.Selector, error) {
	effective := &metav1.LabelSelector{}
	if have != nil {
		effective = have.DeepCopy()
	}
	if effective.MatchLabels == nil {
		effective.MatchLabels = map[string]string{}
	}
	if len(effective.MatchLabels) == 0 && len(effective.MatchExpressions) == 0 {
		effective.MatchLabels[nameLabel] = contract.LabelValue(owner.Key.Name)
	}
	if owner.ClusterName != "" {
		effective.MatchLabels[contract.ClusterNameLabel] = owner.ClusterName
	}
	selector, err := metav1.LabelSelectorAsSelector(effective)
	if err != nil {
		return nil, fmt.Errorf("the selector: %w", err)
	}
	return selector, nil
}
