package fake

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// Machines stands in for package machine in tests of those who own Machines: it takes over what a Machine refers to, reports that the
// Machine is ready, available and up to date, and deletes what it refers to when the Machine goes. Safe for concurrent use.
type Machines struct {
	client client.Client
	gvk    schema.GroupVersionKind
	parts  []schema.GroupVersionKind

	mu      sync.Mutex
	hold    bool
	notYet  func(*unstructured.Unstructured) bool
	waiting time.Duration
}

// NewMachines returns a controller of unstructured Machines of cluster.x-k8s.io/v1beta2. parts are the kinds of what a Machine of a name
// refers to, under the same name.
func NewMachines(c client.Client, gvk schema.GroupVersionKind, parts ...schema.GroupVersionKind) *Machines {
	ready := func(*unstructured.Unstructured) bool { return false }
	return &Machines{client: c, gvk: gvk, parts: parts, waiting: 20 * time.Millisecond, notYet: ready}
}

// SetupWithManager adds the controller to a manager, before the manager is started.
func (l *Machines) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("fake-machines").For(l.object(l.gvk, client.ObjectKey{})).Complete(l)
}

// Hold keeps Machines in deletion until it is called with false.
func (l *Machines) Hold(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
}

// NotReady keeps the Machines for which a function returns true from becoming ready, as long as it does.
func (l *Machines) NotReady(which func(*unstructured.Unstructured) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notYet = which
}

func (l *Machines) object(gvk schema.GroupVersionKind, key client.ObjectKey) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}

// Reconcile implements controller-runtime's Reconciler.
func (l *Machines) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	machine := l.object(l.gvk, request.NamespacedName)
	if err := l.client.Get(ctx, request.NamespacedName, machine); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	l.mu.Lock()
	hold, wait := l.hold, l.notYet(machine)
	l.mu.Unlock()
	if machine.GetDeletionTimestamp() != nil {
		if hold {
			return reconcile.Result{RequeueAfter: l.waiting}, nil
		}
		return reconcile.Result{}, l.end(ctx, machine)
	}
	for _, gvk := range l.parts {
		if err := l.takeOver(ctx, machine, l.object(gvk, request.NamespacedName)); err != nil {
			return reconcile.Result{}, err
		}
	}
	if wait {
		return reconcile.Result{RequeueAfter: l.waiting}, nil
	}
	base := machine.DeepCopy()
	var all []any
	for _, kind := range []string{
		contract.ConditionReady, contract.ConditionAvailable, contract.ConditionUpToDate, contract.ConditionNodeReady,
	} {
		all = append(all, map[string]any{
			"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	machine.Object["status"] = map[string]any{"conditions": all, "nodeRef": map[string]any{"name": request.Name}}
	return reconcile.Result{}, l.client.Status().Patch(ctx, machine, client.MergeFrom(base))
}

func (l *Machines) takeOver(ctx context.Context, machine, part *unstructured.Unstructured) error {
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

// end deletes what a Machine refers to, and removes its finalizer.
func (l *Machines) end(ctx context.Context, machine *unstructured.Unstructured) error {
	for _, gvk := range l.parts {
		if err := l.client.Delete(ctx, l.object(gvk, client.ObjectKeyFromObject(machine))); err != nil && !apierrors.IsNotFound(err) {
			return err
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
	return client.IgnoreNotFound(l.client.Patch(ctx, machine, client.MergeFrom(base)))
}
