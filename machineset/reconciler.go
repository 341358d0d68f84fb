package machineset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
)

// Reconciler keeps as many Machines of each set as the set asks for. Safe for concurrent use, as long as one set is not worked on
// twice at a time, which controller-runtime sees to.
type Reconciler struct {
	kinds   Kinds
	ports   Ports
	options Options
	tracker *external.Tracker
	writer  *patch.Writer
	memory  *memory
}

// New returns a Reconciler. It reports everything that is wrong with its inputs at once and makes no request. Most callers want
// SetupWithManager, which fills the ports from a manager.
func New(kinds Kinds, ports Ports, options Options) (*Reconciler, error) {
	if err := errors.Join(kinds.validate(), ports.validate(), contract.CheckVersions(options.ContractVersions...)); err != nil {
		return nil, fmt.Errorf("machine set reconciler for %s: %w", cmp.Or(kinds.Set.GVK.Kind, "a kind without a name"), err)
	}
	options = options.withDefaults(kinds.Set)
	r := &Reconciler{
		kinds: kinds, ports: ports, options: options, memory: newMemory(), writer: patch.NewWriter(ports.Client, options.Clock),
	}
	r.tracker = external.NewTracker(ports.Cache, r.setsOf, "templates of "+kinds.Set.GVK.Kind, options.ContractVersions...)
	return r, nil
}

const (
	// behindRetry is a safety net: the event that shows what was waited for wakes the set first.
	behindRetry = 5 * time.Second
	// conflictRetry is one too.
	conflictRetry = time.Second
)

// Reconcile implements controller-runtime's Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := pass.NewObject(r.kinds.Set)
	err := r.ports.Cache.Get(ctx, request.NamespacedName, obj, client.UnsafeDisableDeepCopy) // a pass only looks at it
	if apierrors.IsNotFound(err) {
		r.memory.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read %s %s: %w", r.kinds.Set.GVK.Kind, request.NamespacedName, err)
	}
	return r.ReconcileObject(ctx, obj)
}

// ReconcileObject makes one pass over a set that the caller has read, and does not change it. Call it from a loop of your own in
// place of Reconcile, for one set at a time, and IndexMachines once before the cache starts.
func (r *Reconciler) ReconcileObject(ctx context.Context, obj contract.Object) (reconcile.Result, error) {
	s := &Scope{env: r, set: obj, now: r.options.Clock.Now()}
	if err := r.kinds.Set.Adapter.Read(obj, &s.state); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if !r.matchesWatchFilter(obj) || (!s.state.Deleting.IsZero() && !slices.Contains(s.state.Finalizers, r.options.Finalizer)) {
		r.memory.forget(s.state.Key)
		return reconcile.Result{}, nil // another controller's, or done with
	}
	if r.writer.Behind(obj) {
		return reconcile.Result{RequeueAfter: behindRetry}, nil
	}
	err := s.run(ctx)
	if s.finished {
		r.memory.forget(s.state.Key)
	} else {
		err = errors.Join(err, s.writeStatus(ctx, err != nil && !pass.IsStale(err)))
	}
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: s.again}, nil
	case pass.IsStale(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	return reconcile.Result{}, err
}

// matchesWatchFilter reports whether this Reconciler reconciles a set.
func (r *Reconciler) matchesWatchFilter(obj metav1.Object) bool {
	return r.options.WatchFilter == "" || obj.GetLabels()[contract.WatchFilterLabel] == r.options.WatchFilter
}

func clusterAPI(v contract.Version) func(kind string) schema.GroupVersionKind {
	return schema.GroupVersion{Group: "cluster.x-k8s.io", Version: string(v)}.WithKind
}
