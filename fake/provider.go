package fake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// ProviderOptions are the options that the fake providers share. With the zero value they act at once.
type ProviderOptions struct {
	// Delay returns how long a stage takes for an object; nil means no delay.
	Delay func(obj *unstructured.Unstructured) time.Duration
	// Machine is the kind of the owners. Default MachineGVK.
	Machine schema.GroupVersionKind
	// Name must be unique in a process. Default: the provided kind in lower case, and the contract version.
	Name string
}

// Constant returns a Delay that is the same for every object.
func Constant(d time.Duration) func(*unstructured.Unstructured) time.Duration {
	return func(*unstructured.Unstructured) time.Duration { return d }
}

// provider is the shared part of the providers: finalizer, owner, delay, deletion.
type provider struct {
	ProviderOptions

	client client.Client
	gvk    schema.GroupVersionKind
	// reference is the path in an owner of the name of its object of this provider.
	reference []string
	// ready and create are specific to the provider. create changes the object in memory, which is then saved, and returns when it must be
	// called again; zero means with the next event.
	ready  func(owner *unstructured.Unstructured) bool
	create func(ctx context.Context, e *edit, owner *unstructured.Unstructured) (again time.Duration, err error)

	mu    sync.Mutex
	since map[types.UID]map[string]time.Time
}

const providerFinalizer = "fake.machinist.dev/provider"

func (p *provider) setup(mgr ctrl.Manager) error {
	p.client = mgr.GetClient()
	p.since = map[types.UID]map[string]time.Time{}
	p.Machine = cmp.Or(p.Machine, MachineGVK())
	p.Name = cmp.Or(p.Name, strings.ToLower(p.gvk.Kind)+"-"+p.gvk.Version)
	return ctrl.NewControllerManagedBy(mgr).Named(p.Name).For(empty(p.gvk)).
		Watches(empty(p.Machine), handler.EnqueueRequestsFromMapFunc(p.fromOwner)).Complete(p)
}

func (p *provider) fromOwner(_ context.Context, owner client.Object) []reconcile.Request {
	u, _ := owner.(*unstructured.Unstructured) // as it is watched
	name, _, _ := unstructured.NestedString(u.Object, p.reference...)
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: u.GetNamespace(), Name: name}}}
}

// conflictRetry is the delay of a retry after a conflict.
const conflictRetry = 100 * time.Millisecond

// Reconcile follows the workflow that the contract requires of a provider.
func (p *provider) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := empty(p.gvk)
	if err := p.client.Get(ctx, request.NamespacedName, obj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	again, err := p.provide(ctx, newEdit(p.client, obj))
	if apierrors.IsConflict(err) {
		again, err = conflictRetry, nil
	}
	return reconcile.Result{RequeueAfter: again}, client.IgnoreNotFound(err)
}

// provide performs the next step for an object.
func (p *provider) provide(ctx context.Context, e *edit) (again time.Duration, err error) {
	if e.GetDeletionTimestamp() != nil {
		p.mu.Lock()
		delete(p.since, e.GetUID())
		p.mu.Unlock()
		controllerutil.RemoveFinalizer(e, providerFinalizer)
		return 0, e.save(ctx)
	}
	owner, err := p.owner(ctx, e)
	if err != nil || owner == nil || !p.ready(owner) {
		return 0, err
	}
	controllerutil.AddFinalizer(e, providerFinalizer)
	if again = p.wait(e, "create", p.Delay); again == 0 {
		again, err = p.create(ctx, e, owner)
	}
	if err != nil {
		return 0, err
	}
	return again, e.save(ctx)
}

// wait returns the remaining time of a stage, which starts with the first call for an object.
func (p *provider) wait(e *edit, stage string, delay func(*unstructured.Unstructured) time.Duration) time.Duration {
	if delay == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	stages := p.since[e.GetUID()]
	if stages == nil {
		stages = map[string]time.Time{}
		p.since[e.GetUID()] = stages
	}
	if stages[stage].IsZero() {
		stages[stage] = time.Now()
	}
	return max(0, delay(e.Unstructured)-time.Since(stages[stage]))
}

// owner returns the Machine that controls an object, nil if there is none.
func (p *provider) owner(ctx context.Context, e *edit) (*unstructured.Unstructured, error) {
	ref := metav1.GetControllerOf(e)
	if ref == nil || ref.Kind != p.Machine.Kind {
		return nil, nil
	}
	owner := empty(p.Machine)
	err := p.client.Get(ctx, types.NamespacedName{Namespace: e.GetNamespace(), Name: ref.Name}, owner)
	if err != nil || owner.GetUID() != ref.UID {
		return nil, client.IgnoreNotFound(err)
	}
	return owner, nil
}

// edit is an object that is changed in memory and then saved.
type edit struct {
	*unstructured.Unstructured

	client client.Client
	stored *unstructured.Unstructured
}

func newEdit(c client.Client, obj *unstructured.Unstructured) *edit {
	return &edit{obj, c, obj.DeepCopy()}
}

// save writes what changed: metadata and spec, then the status.
func (e *edit) save(ctx context.Context) error {
	body := contract.MergePatch(e.stored.Object, e.Object)
	status, reported := body["status"]
	delete(body, "status")
	if len(body) > 0 {
		if err := e.patch(ctx, body, false); err != nil {
			return err
		}
	}
	if reported {
		if err := e.patch(ctx, map[string]any{"status": status}, true); err != nil {
			return err
		}
	}
	e.Unstructured = e.stored.DeepCopy()
	return nil
}

// patch sends a merge patch with the resource version, because it may replace lists: it fails if the object has changed since it was read.
func (e *edit) patch(ctx context.Context, body map[string]any, status bool) error {
	_ = unstructured.SetNestedField(body, e.stored.GetResourceVersion(), "metadata", "resourceVersion")
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, text)
	if status {
		err = e.client.Status().Patch(ctx, e.stored, patch)
	} else {
		err = e.client.Patch(ctx, e.stored, patch)
	}
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", e.GetKind(), e.GetNamespace(), e.GetName(), err)
	}
	return nil
}

func empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// setReady adds the condition Ready, unless it exists.
func setReady(obj *unstructured.Unstructured) error {
	if _, found, err := contract.ConditionsAt("status", "conditions").Find(obj.Object, "Ready"); found || err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	ready := map[string]any{
		"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}
	return errors.Join(err, unstructured.SetNestedSlice(obj.Object, append(conditions, ready), "status", "conditions"))
}
