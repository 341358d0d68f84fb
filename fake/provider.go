package fake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ProviderOptions are the options that the fake providers share. With the zero value they act at once.
type ProviderOptions struct {
	// Delay returns how long a stage takes for an object; nil is no delay.
	Delay func(obj *unstructured.Unstructured) time.Duration
	// Machine is the kind of the owners. Default MachineGVK.
	Machine schema.GroupVersionKind
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Name must be unique in a process. Default: the provided kind in lower case.
	Name string
}

// Constant returns a Delay that is the same for every object.
func Constant(d time.Duration) func(*unstructured.Unstructured) time.Duration {
	return func(*unstructured.Unstructured) time.Duration { return d }
}

func (o ProviderOptions) withDefaults() ProviderOptions {
	if o.Machine.Empty() {
		o.Machine = MachineGVK()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// provider is the shared part of infrastructure and bootstrap: finalizer, owner, delay, deletion.
type provider struct {
	client  client.Client
	gvk     schema.GroupVersionKind
	options ProviderOptions
	// references returns the name of the object of this provider that a Machine references.
	references func(machine *unstructured.Unstructured) string
	// ready and create are specific to the provider. create changes the object in memory.
	ready  func(obj, machine *unstructured.Unstructured) bool
	create func(ctx context.Context, obj, machine *unstructured.Unstructured) (created, error)

	mu    sync.Mutex
	since map[types.UID]time.Time
}

// created is what a provider does after its create: join, unless it is nil, between the write of metadata and spec and that of the status,
// and another pass after again, unless that is zero.
type created struct {
	join  func(ctx context.Context) error
	again time.Duration
}

const providerFinalizer = "fake.machinist.dev/provider"

func (p *provider) setup(mgr ctrl.Manager, name string) error {
	p.client = mgr.GetClient()
	p.since = map[types.UID]time.Time{}
	if p.options.Name != "" {
		name = p.options.Name
	}
	return ctrl.NewControllerManagedBy(mgr).Named(name).For(empty(p.gvk)).
		Watches(empty(p.options.Machine), handler.EnqueueRequestsFromMapFunc(p.fromMachine)).Complete(p)
}

func (p *provider) fromMachine(_ context.Context, obj client.Object) []reconcile.Request {
	machine, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	name := p.references(machine)
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: machine.GetNamespace(), Name: name}}}
}

// Reconcile follows the workflow that the contract requires of a provider.
func (p *provider) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := empty(p.gvk)
	if err := p.client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if obj.GetDeletionTimestamp() != nil {
		p.forget(obj)
		return p.release(ctx, obj, providerFinalizer)
	}
	result, err := p.provide(ctx, obj)
	return afterConflict(result, err)
}

// provide does for an object that is not being deleted what comes next.
func (p *provider) provide(ctx context.Context, obj *unstructured.Unstructured) (reconcile.Result, error) {
	before := obj.DeepCopy()
	machine, err := p.owner(ctx, obj)
	if err != nil || machine == nil || !p.ready(obj, machine) {
		return reconcile.Result{}, err
	}
	controllerutil.AddFinalizer(obj, providerFinalizer)
	if wait := p.wait(obj); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, p.save(ctx, before, obj, nil)
	}
	made, err := p.create(ctx, obj, machine)
	if err != nil {
		return reconcile.Result{}, err
	}
	setReady(obj, p.options.Clock.Now())
	return reconcile.Result{RequeueAfter: made.again}, p.save(ctx, before, obj, made.join)
}

// wait returns the remaining delay of the current stage.
func (p *provider) wait(obj *unstructured.Unstructured) time.Duration {
	if p.options.Delay == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	if _, begun := p.since[obj.GetUID()]; !begun {
		p.since[obj.GetUID()] = now
	}
	return p.since[obj.GetUID()].Add(p.options.Delay(obj)).Sub(now)
}

func (p *provider) forget(obj *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, obj.GetUID())
	delete(p.since, joinKey(obj))
}

// release removes a finalizer from an object in deletion, and keeps those of others.
func (p *provider) release(ctx context.Context, obj *unstructured.Unstructured, finalizer string) (reconcile.Result, error) {
	before := obj.DeepCopy()
	if !controllerutil.RemoveFinalizer(obj, finalizer) {
		return reconcile.Result{}, nil
	}
	return afterConflict(reconcile.Result{}, client.IgnoreNotFound(p.patch(ctx, before, obj, false)))
}

// conflictRetry is when an object is looked at again that has changed since it was read.
const conflictRetry = 100 * time.Millisecond

// afterConflict returns the result of a pass, and of one that has lost a race another pass.
func afterConflict(result reconcile.Result, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return result, err
}

// owner returns the Machine that controls an object, nil if there is none.
func (p *provider) owner(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ref := metav1.GetControllerOf(obj)
	if ref == nil || ref.Kind != p.options.Machine.Kind {
		return nil, nil
	}
	machine := empty(p.options.Machine)
	err := p.client.Get(ctx, types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}, machine)
	if err != nil || machine.GetUID() != ref.UID {
		return nil, client.IgnoreNotFound(err)
	}
	return machine, nil
}

// save writes what changed: metadata and spec, then status. Between the two it calls join, unless that is nil or the object is gone or
// being deleted.
func (p *provider) save(ctx context.Context, before, obj *unstructured.Unstructured, join func(context.Context) error) error {
	return client.IgnoreNotFound(p.saveUnlessGone(ctx, before, obj, join))
}

func (p *provider) saveUnlessGone(ctx context.Context, before, obj *unstructured.Unstructured, join func(context.Context) error) error {
	status, found := obj.Object["status"]
	delete(obj.Object, "status")
	oldStatus := before.Object["status"]
	main := before.DeepCopy()
	delete(main.Object, "status")
	if err := p.patch(ctx, main, obj, false); err != nil {
		return err
	}
	if join != nil && obj.GetDeletionTimestamp() == nil {
		if err := join(ctx); err != nil {
			return err
		}
	}
	if !found {
		return nil
	}
	base := obj.DeepCopy()
	delete(base.Object, "status")
	if oldStatus != nil {
		base.Object["status"] = oldStatus
	}
	obj.Object["status"] = status
	return p.patch(ctx, base, obj, true)
}

// patch writes what changed. A merge patch replaces all finalizers, so one of them is refused if the object has changed since it was read.
func (p *provider) patch(ctx context.Context, before, after *unstructured.Unstructured, status bool) error {
	patch := client.MergeFrom(before)
	if !slices.Equal(before.GetFinalizers(), after.GetFinalizers()) {
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	if data, err := patch.Data(after); err != nil || string(data) == "{}" {
		return err
	}
	var err error
	if status {
		err = p.client.Status().Patch(ctx, after, patch)
	} else {
		err = p.client.Patch(ctx, after, patch)
	}
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", after.GetKind(), after.GetNamespace(), after.GetName(), err)
	}
	return nil
}

func empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

func setReady(obj *unstructured.Unstructured, now time.Time) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			return
		}
	}
	entry := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(now)}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&entry)
	if err == nil {
		_ = unstructured.SetNestedSlice(obj.Object, []any{content}, "status", "conditions")
	}
}
