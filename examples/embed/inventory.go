package main

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "example.com/edge/v1"
)

// inventoryName is the ConfigMap that each namespace with servers gets.
const inventoryName = "edge-inventory"

// inventory is a controller that this operator had before: it keeps a list of the servers of a namespace for the technicians. It does
// not depend on Machinist, and reads servers from the same informer.
type inventory struct{ client client.Client }

func addInventory(mgr ctrl.Manager) error {
	toNamespace := func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: inventoryName}}}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("inventory").
		Watches(&v1.EdgeServer{}, handler.EnqueueRequestsFromMapFunc(toNamespace)).Complete(&inventory{client: mgr.GetClient()})
}

// Reconcile writes the list of one namespace if it has changed.
func (i *inventory) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var servers v1.EdgeServerList
	if err := i.client.List(ctx, &servers, client.InNamespace(request.Namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("inventory of %s: %w", request.Namespace, err)
	}
	lines := map[string]string{}
	for _, s := range servers.Items {
		lines[s.Name] = fmt.Sprintf("%s in rack %s: %s", s.Spec.Serial, s.Spec.Rack, s.Status.Stage)
	}
	list := &corev1.ConfigMap{}
	err := i.client.Get(ctx, request.NamespacedName, list)
	switch {
	case apierrors.IsNotFound(err):
		list.ObjectMeta = metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}
		list.Data = lines
		err = i.client.Create(ctx, list)
	case err == nil && !maps.Equal(list.Data, lines):
		changed := list.DeepCopy()
		changed.Data = lines
		err = i.client.Patch(ctx, changed, client.MergeFrom(list))
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("inventory of %s: %w", request.Namespace, err)
	}
	return reconcile.Result{}, nil
}
