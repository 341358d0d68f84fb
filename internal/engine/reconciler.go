package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

const (
	// BehindRetry is a safety net: usually the event of this process's own write wakes the object first.
	BehindRetry = 5 * time.Second
	// ConflictRetry is a safety net too: usually the event of the conflicting write wakes the object first.
	ConflictRetry = time.Second
)

// ErrStale matches the error of a decision that was based on a stale read; the next pass corrects it.
var ErrStale = patch.ErrStale

// IsStale reports whether an error only means that a read was stale. All joined errors must be stale, also inside another error such as
// that of a step.
func IsStale(err error) bool { return patch.Retryable(err) }

// Embeds is the pointer to a Scope of a kind, which embeds a Scope.
type Embeds[S, U any] interface{ self() *Scope[S, U] }

func (s *Scope[S, U]) self() *Scope[S, U] { return s }

// Kind is the part of a reconciler that a kind adds. S and U are its state and update, and P is the pointer to its Scope.
type Kind[S, U any, P Embeds[S, U]] struct {
	Frame *Frame[S, U]
	// Steps are the steps of a pass, in order.
	Steps []Step[P]
	// NewScope returns an empty Scope of the kind.
	NewScope func() P
	// Begin completes the Scope before the first step.
	Begin func(ctx context.Context, p P)
	// RunStep executes one step; nil calls it.
	RunStep RunFunc[P]
	// Flush writes the object at the end of the pass. err joins the errors of the steps and the deferred ones, nil when there are none.
	Flush func(ctx context.Context, p P, err error) error
	// Forget removes the kind's memory about an object; nil does nothing.
	Forget func(types.NamespacedName)
}

// Reconciler reconciles the objects of one kind. Safe for concurrent use for different objects.
type Reconciler[S, U any, P Embeds[S, U]] struct {
	kind Kind[S, U, P]
}

// NewReconciler returns a Reconciler of a kind.
func NewReconciler[S, U any, P Embeds[S, U]](kind Kind[S, U, P]) *Reconciler[S, U, P] {
	watch(kind.Frame.Options.Metrics, kind.Steps)
	return &Reconciler[S, U, P]{kind}
}

// Reconcile implements controller-runtime's Reconciler.
func (r *Reconciler[S, U, P]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	f := r.kind.Frame
	obj := NewObject(f.Kind)
	err := f.Ports.Cache.Get(ctx, request.NamespacedName, obj, client.UnsafeDisableDeepCopy) // a Scope does not change it
	if apierrors.IsNotFound(err) {
		r.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		r.kind.Frame.Options.Metrics.failed("read", err)
		return reconcile.Result{}, fmt.Errorf("read %s: %w", f.name(request.NamespacedName), err)
	}
	return r.ReconcileObject(ctx, obj)
}

// ReconcileObject makes one pass over an object that the caller has read, and does not change that object. To use it in your own loop
// instead of Reconcile, call Forget when an object is gone, and register the indexes once before the cache starts. Do not call it for one
// object from two goroutines at a time.
func (r *Reconciler[S, U, P]) ReconcileObject(ctx context.Context, obj contract.Object) (reconcile.Result, error) {
	r.kind.Frame.Options.Metrics.works(1)
	defer r.kind.Frame.Options.Metrics.works(-1)
	p, f := r.kind.NewScope(), r.kind.Frame
	s := p.self()
	if err := Begin(s, f, obj); err != nil {
		r.kind.Frame.Options.Metrics.failed("read", err)
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	key := s.Common().Key
	switch {
	case !f.MatchesWatchFilter(obj):
		r.Forget(key)
		return reconcile.Result{}, nil
	case s.Deleting() && !slices.Contains(s.Common().Finalizers, f.Finalizer):
		r.Forget(key) // our finalizer is gone or was never set; others may remain
		return reconcile.Result{}, nil
	case f.Writer.Behind(obj):
		return reconcile.Result{RequeueAfter: BehindRetry}, nil
	}
	r.kind.Begin(ctx, p)
	err := r.pass(ctx, p, s)
	if s.released {
		r.Forget(key)
	}
	switch {
	case err == nil, Undone(err) != nil && IsStale(err): // remember has requested the next attempt
		return reconcile.Result{RequeueAfter: s.requeue}, nil
	case IsStale(err):
		return reconcile.Result{RequeueAfter: ConflictRetry}, nil
	}
	return reconcile.Result{}, err
}

// pass runs the steps over an object and writes it. The errors of both are joined.
func (r *Reconciler[S, U, P]) pass(ctx context.Context, p P, s *Scope[S, U]) error {
	ctx, task := trace.NewTask(ctx, "reconcile "+r.kind.Frame.Kind.GVK.Kind)
	defer task.End()
	trace.Logf(ctx, "object", "%s", s.Common().Key)
	_, err := RunSteps(ctx, r.kind.Steps, p, r.kind.RunStep)
	err = errors.Join(err, s.deferred)
	s.contest(err)
	writing := trace.StartRegion(ctx, "write")
	unwritten := r.kind.Flush(ctx, p, err)
	writing.End()
	if external.IsGone(unwritten) { // a CRD without a status subresource returns this too, and a webhook may
		if same, failed := s.IsSame(ctx); failed == nil && !same {
			unwritten = nil // the event of its removal follows
		}
	}
	s.remember(unwritten) // the next pass asserts it
	r.kind.Frame.Options.Metrics.failed("write", unwritten)
	return errors.Join(err, unwritten)
}

// Forget removes the memory of this process about an object that is gone, or that the watch filter excludes now. Reconcile calls it; in
// your own loop, call it for each object that you no longer pass to ReconcileObject, or memory grows.
func (r *Reconciler[S, U, P]) Forget(key types.NamespacedName) {
	r.kind.Frame.writes.Forget(key)
	if r.kind.Forget != nil {
		r.kind.Forget(key)
	}
}
