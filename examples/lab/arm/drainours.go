package arm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/drain/runner"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ourWorkers is how many Steps run at a time; a Step waits for nothing but a cordon.
const ourWorkers = 4

// ours is a drain/runner in the smallest operator: a controller of Nodes with the informers of its manager for Nodes and budgets.
type ours struct {
	mgr    ctrl.Manager
	runner *runner.Runner
	begin  chan event.GenericEvent
	cancel context.CancelFunc
	ended  chan struct{} // closed when the manager has ended
	err    error         // how; read it after ended is closed

	mu      sync.Mutex
	pending map[string]bool
	done    chan struct{} // closed when nothing is pending
}

func startOurs(ctx context.Context, to *rest.Config) (Drainer, error) {
	o := &ours{
		begin: make(chan event.GenericEvent), ended: make(chan struct{}), pending: map[string]bool{}, done: make(chan struct{}),
	}
	var err error
	o.mgr, err = ctrl.NewManager(to, ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{
			SkipNameValidation: new(true), MaxConcurrentReconciles: ourWorkers,
			UsePriorityQueue: new(false), // it can hang when it is shut down: kubernetes-sigs/controller-runtime#3538
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start our arm: %w", err)
	}
	ctx, o.cancel = context.WithCancel(ctx)
	if err := o.start(ctx); err != nil {
		o.cancel()
		return nil, fmt.Errorf("start our arm: %w", err)
	}
	return o, nil
}

// start runs the manager until ctx ends, and returns when its informers are synced.
func (o *ours) start(ctx context.Context) error {
	var err error
	if o.runner, err = runner.AddToManager(o.mgr); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(o.mgr).For(&corev1.Node{}).WatchesRawSource(o.runner.Source()).
		WatchesRawSource(source.Channel(o.begin, &handler.EnqueueRequestForObject{})).Complete(reconcile.Func(o.reconcile))
	if err != nil {
		return err
	}
	go func() {
		o.err = o.mgr.Start(ctx)
		close(o.ended)
	}()
	if !o.mgr.GetCache().WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	return o.warmUp(ctx)
}

// warmUp begins the list of budgets, as of a Node that does not exist: an operator keeps it open for its whole life. Half a second is
// enough.
func (o *ours) warmUp(ctx context.Context) error {
	nobody := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "warm-up", UID: "warm-up"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	defer o.runner.Release(nobody.Name)
	for range 5 {
		if _, err := o.runner.Step(ctx, runner.Request{Node: nobody}); err != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Drain implements Drainer.
func (o *ours) Drain(ctx context.Context, nodes []string) error {
	o.mu.Lock()
	for _, name := range nodes {
		o.pending[name] = true
	}
	o.mu.Unlock()
	for _, name := range nodes {
		select {
		case o.begin <- event.GenericEvent{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-o.done:
		return nil
	case <-o.ended:
		return fmt.Errorf("our arm has ended: %w", o.err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *ours) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o.mu.Lock()
	wanted := o.pending[request.Name]
	o.mu.Unlock()
	if !wanted {
		return reconcile.Result{}, nil
	}
	var node corev1.Node
	if err := o.mgr.GetClient().Get(ctx, request.NamespacedName, &node); err != nil {
		return reconcile.Result{}, err
	}
	result, err := o.runner.Step(ctx, runner.Request{Node: &node, Owner: request.NamespacedName})
	if err != nil || !result.Done {
		return reconcile.Result{RequeueAfter: result.RequeueAfter}, err
	}
	o.runner.Release(request.Name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.pending, request.Name); len(o.pending) == 0 {
		close(o.done)
	}
	return reconcile.Result{}, nil
}

// Close implements Drainer.
func (o *ours) Close() {
	o.cancel()
	<-o.ended
}
