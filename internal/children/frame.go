package children

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Frame is shared by the passes over all owners of a kind: the Frame of the owners, whose index also finds the children of an owner, and
// the children's kind. S and U are the state and the update of an owner, CS and CU those of a child. Safe for concurrent use.
type Frame[S, U, CS, CU any] struct {
	owner    *engine.Frame[S, U]
	kind     contract.KindOf[CS, CU]
	selector func(*S) (labels.Selector, error)
	name     string
	marks    []string
}

// NewFrame returns the Frame for the owners of an engine.Frame, with children of a kind that passes engine.CheckKind. selector returns the
// selector of an owner's children; an owner for which it fails adopts none. name is the name of a child in the reasons of holds, such as
// Machine; messages and events use its kind. marks are the annotations by which the owner chooses the children to delete.
func NewFrame[S, U, CS, CU any](
	owner *engine.Frame[S, U], kind contract.KindOf[CS, CU], selector func(*S) (labels.Selector, error), name string, marks ...string,
) *Frame[S, U, CS, CU] {
	return &Frame[S, U, CS, CU]{owner, kind, selector, name, marks}
}

// Child is a child as a pass has read it. Object may be shared with a cache; neither it nor State may be changed.
type Child[CS any] struct {
	Object contract.Object
	State  *CS
	*contract.Metadata
}

// child reads a child.
func (f *Frame[S, U, CS, CU]) child(obj contract.Object) (Child[CS], error) {
	state := new(CS)
	err := f.kind.Adapter.Read(obj, state)
	return Child[CS]{Object: obj, State: state, Metadata: contract.CommonOf(state).Metadata}, err
}

// nameOf returns the name of a child for errors.
func (f *Frame[S, U, CS, CU]) nameOf(key types.NamespacedName) string {
	return f.kind.GVK.Kind + " " + key.String()
}

// isOwner reports whether a controller reference names an owner with this name, whatever its UID.
func (f *Frame[S, U, CS, CU]) isOwner(ref *metav1.OwnerReference, name string) bool {
	return ref.Name == name && ref.Kind == f.owner.Kind.GVK.Kind && engine.Group(ref.APIVersion) == f.owner.Kind.GVK.Group
}

// Existing reads an object that should exist from the API server. The error matches engine.ErrStale when it is gone.
func (f *Frame[S, U, CS, CU]) Existing(ctx context.Context, into client.Object, kind string, key types.NamespacedName) error {
	err := f.owner.Ports.APIReader.Get(ctx, key, into)
	switch {
	case external.IsGone(err):
		return fmt.Errorf("%w: %s %s has gone a moment ago", engine.ErrStale, kind, key)
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind, key, err)
	}
	return nil
}

// Flush writes an owner at the end of a pass over it and its children, with the error of the steps. A pass that has read too little does
// not change the status; a pass that has failed to read the children sets the conditions unobserved.
func (s *Scope[S, U, CS, CU]) Flush(ctx context.Context, unobserved func() []metav1.Condition, err error) error {
	failed := err != nil && !engine.IsStale(err)
	silent := s.Waiting || (failed && s.owner.Paused())
	if failed && !silent && !s.Known {
		s.owner.Assert(unobserved()...)
	}
	evaluated := !failed || patch.Every(err, func(one error) bool {
		_, isRefusal := errors.AsType[refusal](one)
		return isRefusal || engine.IsStale(one)
	})
	err = s.owner.Flush(ctx, engine.Writing{Observes: s.Known && evaluated, Silent: silent})
	if err == nil {
		s.owner.Record(s.events...)
	}
	return err
}

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

// gathering is a queue that adds requests later.
type gathering struct{ queue }

// Add implements the interface.
func (q gathering) Add(request reconcile.Request) { q.AddAfter(request, gather) }

// Watch enqueues the owner of a child that changes, or the owners that may adopt it. Events of many children at once cause one pass.
func (f *Frame[S, U, CS, CU]) Watch(b *engine.Builder) {
	b.Watches(engine.NewObject(f.kind), Gathered(f.ownersOf))
}

// Gathered enqueues the requests for an event 100 ms later, so that events of many objects at once cause one pass. For an update it
// includes the requests for the old object.
func Gathered(requests handler.MapFunc) handler.Funcs {
	all := handler.EnqueueRequestsFromMapFunc(requests)
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { all.Create(ctx, e, gathering{q}) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { all.Delete(ctx, e, gathering{q}) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { all.Update(ctx, e, gathering{q}) },
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

// Selector returns the selector of an owner that selects children of its Cluster. Without own labels and expressions it selects the
// children whose label nameLabel has the owner's name. have is not changed. Rule: the defaults of Cluster API's webhooks and controllers
// for MachineSets and MachineDeployments.
func Selector(have *metav1.LabelSelector, owner contract.Common, nameLabel string) (labels.Selector, error) {
	effective := cmp.Or(have.DeepCopy(), &metav1.LabelSelector{})
	if len(effective.MatchLabels) == 0 && len(effective.MatchExpressions) == 0 {
		metav1.AddLabelToSelector(effective, nameLabel, contract.LabelValue(owner.Key.Name))
	}
	if owner.ClusterName != "" {
		metav1.AddLabelToSelector(effective, contract.ClusterNameLabel, owner.ClusterName)
	}
	selector, err := metav1.LabelSelectorAsSelector(effective)
	if err != nil {
		return nil, fmt.Errorf("the selector: %w", err)
	}
	return selector, nil
}
