package fake

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// Machines replaces package machine in tests of owners of Machines. It makes each Machine the controller of the objects that it references.
// It reports that the Machine is ready, available and up to date, unless a health check has failed for it, and deletes the referenced
// objects with the Machine. Safe for concurrent use.
type Machines struct {
	client client.Client
	kind   contract.Kind
	parts  []schema.GroupVersionKind

	mu       sync.Mutex
	hold     bool
	notReady func(client.Object) bool
}

// NewMachines returns a controller of Machines of a kind. parts are the kinds of the referenced objects, which have the name of the
// Machine.
func NewMachines(c client.Client, kind contract.Kind, parts ...schema.GroupVersionKind) *Machines {
	return &Machines{client: c, kind: kind, parts: parts, notReady: func(client.Object) bool { return false }}
}

// SetupWithManager adds the controller to a manager, before the manager is started.
func (l *Machines) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("fake-machines").For(l.machine()).Complete(l)
}

// Hold blocks the deletion of Machines until it is called with false.
func (l *Machines) Hold(hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = hold
}

// NotReady prevents Machines from becoming ready while the function returns true for them.
func (l *Machines) NotReady(which func(client.Object) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notReady = which
}

func (l *Machines) machine() client.Object {
	obj, _ := l.kind.New().(client.Object)
	return obj
}

// again is the interval at which a held Machine is checked.
const again = 20 * time.Millisecond

// Reconcile implements controller-runtime's Reconciler.
func (l *Machines) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	machine := l.machine()
	if err := l.client.Get(ctx, request.NamespacedName, machine); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	l.mu.Lock()
	hold, notReady := l.hold, l.notReady
	l.mu.Unlock()
	wait := notReady(machine) // it may call methods of Machines
	var u contract.MachineUpdate
	switch {
	case machine.GetDeletionTimestamp() == nil:
		for _, gvk := range l.parts {
			if err := l.takeOver(ctx, machine, gvk); err != nil {
				return reconcile.Result{}, err
			}
		}
		if wait {
			return reconcile.Result{RequeueAfter: again}, nil
		}
		u.Node = contract.SetTo(contract.NodeRef{Name: request.Name, UID: "uid"})
		var state contract.MachineState
		if err := l.kind.Adapter.Read(machine, &state); err != nil {
			return reconcile.Result{}, err
		}
		u.Conditions = ready(machine.GetCreationTimestamp(), state.Conditions)
	case hold:
		return reconcile.Result{RequeueAfter: again}, nil
	default:
		for _, gvk := range l.parts {
			if err := l.client.Delete(ctx, part(gvk, machine)); err != nil && !apierrors.IsNotFound(err) {
				return reconcile.Result{}, err
			}
		}
		u.Finalizers = contract.SetTo(slices.DeleteFunc(slices.Clone(machine.GetFinalizers()), func(f string) bool {
			return f == contract.MachineFinalizer
		}))
	}
	err := l.write(ctx, machine, u)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// ready returns the conditions of a Machine whose Node works. A Machine whose health check has failed is neither ready nor available. A
// Machine without a condition UpToDate of its owner is up to date.
func ready(since metav1.Time, have []metav1.Condition) (all []metav1.Condition) {
	failed := slices.ContainsFunc(have, func(c metav1.Condition) bool {
		return c.Type == contract.ConditionHealthCheckSucceeded && c.Status == metav1.ConditionFalse
	})
	for _, kind := range []string{
		contract.ConditionReady, contract.ConditionAvailable, contract.ConditionUpToDate, contract.ConditionNodeReady, "NodeHealthy",
	} {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: since}
		switch {
		case failed && (kind == contract.ConditionReady || kind == contract.ConditionAvailable):
			c.Status = metav1.ConditionFalse
		case kind == contract.ConditionUpToDate && meta.FindStatusCondition(have, kind) != nil:
			continue
		}
		all = append(all, c)
	}
	return all
}

// write writes an update of a Machine with an optimistic lock, because a list of conditions replaces those of others. The status is written
// through its own endpoint if there is one.
func (l *Machines) write(ctx context.Context, machine client.Object, u contract.MachineUpdate) error {
	base, _ := machine.DeepCopyObject().(client.Object)
	if err := l.kind.Adapter.Write(machine, u); err != nil {
		return err
	}
	status, _ := machine.DeepCopyObject().(client.Object)
	lock := client.MergeFromWithOptimisticLock{}
	err := l.client.Patch(ctx, machine, client.MergeFromWithOptions(base, lock))
	if err == nil && l.kind.StatusSubresource && machine.GetDeletionTimestamp() == nil {
		base.SetResourceVersion(machine.GetResourceVersion())
		err = l.client.Status().Patch(ctx, status, client.MergeFromWithOptions(base, lock))
	}
	return err
}

func part(gvk schema.GroupVersionKind, machine client.Object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(machine.GetNamespace())
	u.SetName(machine.GetName())
	return u
}

// takeOver makes a Machine the controller of a referenced object.
func (l *Machines) takeOver(ctx context.Context, machine client.Object, gvk schema.GroupVersionKind) error {
	obj := part(gvk, machine)
	err := l.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if err != nil || metav1.GetControllerOf(obj) != nil {
		return client.IgnoreNotFound(err)
	}
	base := obj.DeepCopy()
	version, kind := l.kind.GVK.ToAPIVersionAndKind()
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: version, Kind: kind, Name: machine.GetName(), UID: machine.GetUID(), Controller: new(true),
	}})
	return l.client.Patch(ctx, obj, client.MergeFrom(base))
}
