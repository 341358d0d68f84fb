package machineset_test

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// lives stands for package machine, which sets meet through objects only: it takes over what a Machine refers to, says that the
// Machine is ready, and cleans up behind it.
type lives struct {
	client client.Client
	gvk    schema.GroupVersionKind

	mu   sync.Mutex
	hold bool // no deletion ends
}

func (l *lives) setup(mgr ctrl.Manager, gvk schema.GroupVersionKind) error {
	l.client, l.gvk = mgr.GetClient(), gvk
	return ctrl.NewControllerManagedBy(mgr).Named("lives").For(object(gvk, "")).Complete(l)
}

func (l *lives) setHold(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
}

func (l *lives) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hold
}

func (l *lives) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	machine := object(l.gvk, "")
	if err := l.client.Get(ctx, request.NamespacedName, machine); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	parts := []*unstructured.Unstructured{object(infraGVK(), request.Name), object(bootstrapGVK(), request.Name)}
	if machine.GetDeletionTimestamp() != nil {
		return l.end(ctx, machine, parts)
	}
	for _, part := range parts {
		if err := l.takeOver(ctx, machine, part); err != nil {
			return reconcile.Result{}, err
		}
	}
	base := machine.DeepCopy()
	var all []any
	for _, kind := range []string{"Ready", "Available", "UpToDate", "NodeReady"} {
		all = append(all, map[string]any{
			"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	machine.Object["status"] = map[string]any{"conditions": all, "nodeRef": map[string]any{"name": request.Name}}
	return reconcile.Result{}, l.client.Status().Patch(ctx, machine, client.MergeFrom(base))
}

func (l *lives) takeOver(ctx context.Context, machine, part *unstructured.Unstructured) error {
	err := l.client.Get(ctx, client.ObjectKeyFromObject(part), part)
	if err != nil || metav1.GetControllerOf(part) != nil {
		return client.IgnoreNotFound(err)
	}
	base := part.DeepCopy()
	part.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: machine.GetAPIVersion(), Kind: machine.GetKind(), Name: machine.GetName(), UID: machine.GetUID(), Controller: new(true),
	}})
	return l.client.Patch(ctx, part, client.MergeFrom(base))
}

func (l *lives) end(ctx context.Context, machine *unstructured.Unstructured, parts []*unstructured.Unstructured) (reconcile.Result, error) {
	if l.holds() {
		return reconcile.Result{RequeueAfter: 50e6}, nil
	}
	for _, part := range parts {
		if err := l.client.Delete(ctx, part); err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
	}
	base := machine.DeepCopy()
	var rest []string
	for _, f := range machine.GetFinalizers() {
		if f != contract.MachineFinalizer {
			rest = append(rest, f)
		}
	}
	machine.SetFinalizers(rest)
	return reconcile.Result{}, client.IgnoreNotFound(l.client.Patch(ctx, machine, client.MergeFrom(base)))
}
