package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/drain/runner"
)

// ourWorkers is how many Steps run at a time; a Step waits for nothing but a cordon.
const ourWorkers = 4

// ours is a drain/runner in the smallest loop that an operator could have: a queue, a few workers, and the informers of a
// manager for Nodes and budgets.
type ours struct {
	informers cache.Cache
	runner    *runner.Runner
	queue     workqueue.TypedRateLimitingInterface[reconcile.Request]
	cancel    context.CancelFunc
	running   sync.WaitGroup

	mu      sync.Mutex
	pending map[string]bool
	done    chan struct{} // closed when nothing is pending
	failed  error         // the runner has ended
}

func startOurs(ctx context.Context, config *rest.Config) (drainer, error) {
	o := &ours{
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
		pending: map[string]bool{}, done: make(chan struct{}),
	}
	if err := o.connect(config); err != nil {
		return nil, fmt.Errorf("start our arm: %w", err)
	}
	ctx, o.cancel = context.WithCancel(ctx)
	if err := o.start(ctx); err != nil {
		o.close()
		return nil, fmt.Errorf("start our arm: %w", err)
	}
	return o, nil
}

// connect makes the clients and looks up what operators look up once.
func (o *ours) connect(config *rest.Config) error {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return err
	}
	for _, kind := range []schema.GroupKind{{Kind: "Pod"}, {Kind: "Node"}, {Group: policyv1.GroupName, Kind: "PodDisruptionBudget"}} {
		if _, err := mapper.RESTMapping(kind); err != nil {
			return err
		}
	}
	o.informers, err = cache.New(config, cache.Options{HTTPClient: httpClient, Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	live, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return err
	}
	evictor, err := runner.NewRESTEvictor(clientset)
	if err != nil {
		return err
	}
	pods, err := runner.NewScopedPodSource(live)
	if err != nil {
		return err
	}
	o.runner, err = runner.New(runner.Config{
		Nodes: live, Pods: pods, Evictor: evictor, Budgets: o.informers, Informers: o.informers,
	})
	return err
}

// start runs the informers, the runner and the workers until ctx ends, and returns when the informers are synced.
func (o *ours) start(ctx context.Context) error {
	o.running.Go(func() { _ = o.informers.Start(ctx) })
	nodes, err := o.informers.GetInformer(ctx, &corev1.Node{})
	if err != nil {
		return err
	}
	_, err = nodes.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, after any) {
		if node, ok := after.(*corev1.Node); ok && o.wants(node.Name) {
			o.queue.Add(requestFor(node.Name))
		}
	}})
	if err != nil {
		return err
	}
	if _, err := o.informers.GetInformer(ctx, &policyv1.PodDisruptionBudget{}); err != nil {
		return err
	}
	if !o.informers.WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	if err := o.runner.Source().Start(ctx, o.queue); err != nil {
		return err
	}
	o.running.Go(func() {
		err := o.runner.Start(ctx)
		if ctx.Err() == nil {
			o.fail(errors.Join(errors.New("the runner has ended"), err))
		}
	})
	for range ourWorkers {
		o.running.Go(func() {
			for o.next(ctx) {
			}
		})
	}
	return nil
}

func requestFor(node string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: node}}
}

func (o *ours) wants(node string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pending[node]
}

func (o *ours) drain(ctx context.Context, nodes []string) error {
	o.mu.Lock()
	for _, name := range nodes {
		o.pending[name] = true
	}
	o.mu.Unlock()
	for _, name := range nodes {
		o.queue.Add(requestFor(name))
	}
	select {
	case <-o.done:
		return o.failed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next takes one Node from the queue, as a controller's worker would.
func (o *ours) next(ctx context.Context) bool {
	request, shutdown := o.queue.Get()
	if shutdown {
		return false
	}
	defer o.queue.Done(request)
	if !o.wants(request.Name) {
		return true
	}
	result, err := o.step(ctx, request)
	switch {
	case err != nil:
		o.queue.AddRateLimited(request)
	case result.Done:
		o.runner.Release(request.Name)
		o.finish(request.Name)
	default:
		o.queue.Forget(request)
		o.queue.AddAfter(request, result.RequeueAfter)
	}
	return true
}

func (o *ours) step(ctx context.Context, request reconcile.Request) (runner.Result, error) {
	var node corev1.Node
	if err := o.informers.Get(ctx, request.NamespacedName, &node); err != nil {
		return runner.Result{}, err
	}
	return o.runner.Step(ctx, runner.Request{Node: &node, Owner: request.NamespacedName})
}

func (o *ours) finish(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.pending[node] {
		return
	}
	delete(o.pending, node)
	if len(o.pending) == 0 && o.failed == nil {
		close(o.done)
	}
}

func (o *ours) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil && len(o.pending) > 0 {
		o.failed = err
		close(o.done)
	}
}

func (o *ours) close() {
	o.cancel()
	o.queue.ShutDown()
	o.running.Wait()
}
