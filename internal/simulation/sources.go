package simulation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// sources is the manager that a Reconciler is added to: it starts the event sources of the controller and never its workers. The World
// passes events to them and reconciles what they put into their queue.
type sources struct {
	ctrl.Manager // only what is below is used

	process *process
	started []warmup
}

// warmup is what a controller of controller-runtime has to start its sources alone.
type warmup interface {
	Warmup(ctx context.Context) error
}

// GetCache implements cluster.Cluster.
func (s *sources) GetCache() cache.Cache { return s.process.view }

// GetFieldIndexer implements cluster.Cluster.
func (s *sources) GetFieldIndexer() client.FieldIndexer { return s.process.view }

// GetScheme implements cluster.Cluster.
func (s *sources) GetScheme() *runtime.Scheme { return clientgoscheme.Scheme }

// GetLogger implements manager.Manager.
func (s *sources) GetLogger() logr.Logger { return logr.Discard() }

// GetControllerOptions implements manager.Manager.
func (s *sources) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), EnableWarmup: new(true), Logger: logr.Discard()}
}

// Add implements manager.Manager.
func (s *sources) Add(r manager.Runnable) error {
	c, is := r.(warmup)
	if !is {
		return fmt.Errorf("a simulated manager runs controllers only, not %T", r)
	}
	s.started = append(s.started, c)
	return nil
}

// controllerOptions has the sources of each controller fill the queue of the process.
func (p *process) controllerOptions() controller.Options {
	type (
		limiter = workqueue.TypedRateLimiter[reconcile.Request]
		queue   = workqueue.TypedRateLimitingInterface[reconcile.Request]
	)
	return controller.Options{NewQueue: func(string, limiter) queue {
		return wakes{process: p, reconciler: p.adding}
	}}
}

// listen starts the sources of each Reconciler that has some.
func (p *process) listen(ctx context.Context) error {
	for i, r := range p.all {
		if r.AddTo == nil {
			continue
		}
		m := &sources{process: p}
		if err := r.AddTo(ctx, m); err != nil {
			return fmt.Errorf("add the reconciler of %s to a manager: %w", r.Kind, err)
		}
		p.adding = i
		for _, c := range m.started {
			if err := c.Warmup(ctx); err != nil {
				return fmt.Errorf("start the sources of %s: %w", r.Kind, err)
			}
		}
	}
	p.introduce()
	return nil
}

// introduce tells handlers that were added what the caches have.
func (p *process) introduce() {
	p.starting.Wait()
	for _, gvk := range p.world.served {
		k := p.view.kinds[gvk.GroupKind()]
		for _, handler := range k.take() {
			for _, obj := range k.sorted() {
				handler.OnAdd(obj, true)
			}
		}
	}
}

// wakes is the queue of a Reconciler.
type wakes struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // only what is below is used

	process    *process
	reconciler int
}

// Add implements workqueue.TypedInterface.
func (w wakes) Add(r reconcile.Request) { w.AddAfter(r, 0) }

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (w wakes) AddRateLimited(r reconcile.Request) { w.AddAfter(r, 0) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (w wakes) AddAfter(r reconcile.Request, after time.Duration) {
	w.process.wake(w.reconciler, r.NamespacedName, after)
}

// ShutDown implements workqueue.TypedInterface.
func (wakes) ShutDown() {}

// handlers are those of the events of one kind in one cache. Controllers add them from goroutines of their own when they start.
type handlers struct {
	mu         sync.Mutex
	all, fresh []toolscache.ResourceEventHandler
}

func (h *handlers) add(handler toolscache.ResourceEventHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh = append(h.fresh, handler)
}

// take returns the handlers that have yet to be told what the cache has.
func (h *handlers) take() []toolscache.ResourceEventHandler {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.fresh
	h.all, h.fresh = append(h.all, taken...), nil
	return taken
}

// tell passes a change of an object on, as an informer does: nil is no object, before or after.
func (h *handlers) tell(before, after *unstructured.Unstructured) {
	for _, handler := range h.all {
		switch {
		case after == nil && before != nil:
			handler.OnDelete(before)
		case before == nil && after != nil:
			handler.OnAdd(after, false)
		case before != nil && before.GetResourceVersion() != after.GetResourceVersion():
			handler.OnUpdate(before, after)
		}
	}
}

// tellAll passes on what a new list has changed.
func (k *viewed) tellAll(before, after map[types.NamespacedName]*unstructured.Unstructured) {
	for _, obj := range sorted(before) {
		k.tell(obj, after[client.ObjectKeyFromObject(obj)])
	}
	for _, obj := range sorted(after) {
		if before[client.ObjectKeyFromObject(obj)] == nil {
			k.tell(nil, obj)
		}
	}
}

// registration says that a handler has been told what the cache has: the World tells it before anything else happens.
type registration struct{}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (registration) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (registration) HasSyncedChecker() toolscache.DoneChecker { return listed{} }

// Source is that of cluster.NodeIndex, for workload.Tracker.
func (n nodes) Source(mapper cluster.NodeMapper) source.SyncingSource {
	return nodeSource{nodes: n, mapper: mapper}
}

// nodeSource passes the events of Nodes on.
type nodeSource struct {
	nodes

	mapper cluster.NodeMapper
}

// Start implements source.Source.
func (s nodeSource) Start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	tell := func(before, after any) {
		for _, r := range s.mapper(cluster.NodeEvent{Old: nodeIn(before), New: nodeIn(after)}) {
			q.Add(r)
		}
	}
	s.kind.add(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { tell(nil, obj) }, UpdateFunc: tell, DeleteFunc: func(obj any) { tell(obj, nil) },
	})
	if s.starting != nil {
		s.starting.Done()
	}
	return nil
}

// WaitForSync implements source.SyncingSource. It ends the goroutine of a Tracker: a link wakes the objects of its cluster itself.
func (s nodeSource) WaitForSync(context.Context) error {
	if s.starting != nil {
		return errAway
	}
	return nil
}

// rolloutEvents wake all Machines for each event of a set or a deployment: machine.Rollouts starts its sources later, from a goroutine.
func (p *process) rolloutEvents(machine.RolloutMapper) source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		wake := func(any) {
			for _, m := range p.view.kinds[kindOf("Machine").GroupKind()].sorted() {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
			}
		}
		for _, kind := range []string{"MachineSet", "MachineDeployment"} {
			p.view.kinds[kindOf(kind).GroupKind()].add(toolscache.ResourceEventHandlerFuncs{
				AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(before, after any) {
					if generationOf(before) != generationOf(after) {
						wake(after)
					}
				},
			})
		}
		return nil
	})
}

func generationOf(event any) int64 {
	if obj, is := event.(*unstructured.Unstructured); is {
		return obj.GetGeneration()
	}
	return 0
}

func nodeIn(event any) *corev1.Node {
	if obj, is := event.(*unstructured.Unstructured); is {
		return typed[corev1.Node](obj)
	}
	return nil
}

// wakeUnsourced wakes everything of the reconcilers without sources, whatever has happened to an object; nil is any.
func (p *process) wakeUnsourced(obj *unstructured.Unstructured) {
	for i, r := range p.all {
		if r.AddTo != nil {
			continue
		}
		if obj != nil && obj.GetKind() == r.Kind {
			p.wake(i, client.ObjectKeyFromObject(obj), 0)
		}
		for _, one := range p.view.kinds[kindOf(r.Kind).GroupKind()].sorted() {
			p.wake(i, client.ObjectKeyFromObject(one), 0)
		}
	}
}
