package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// ClusterRunner is a Runner for the Nodes of one cluster, with what only drains need to know: which volumes are attached, how namespaces
// are labelled, and which budgets there are. All that is listed when the first Node is drained, from a cache of its own, because a source
// of controller-runtime waits for every informer of its cache. A kind that the API server does not serve, or does not allow to be listed,
// holds up what needs it and nothing else. Safe for concurrent use.
type ClusterRunner struct {
	*Runner
	beside     cache.Cache
	troubles   *listTroubles
	volumes    *lazyVolumes // nil without ClusterOptions.Volumes
	namespaces *lazyNamespaces
	budgets    *lazyBudgets
}

// ClusterOptions change what a ClusterRunner asks a cluster for.
type ClusterOptions struct {
	// Volumes: StepVolumes is called too, which needs PersistentVolumes and VolumeAttachments.
	Volumes bool
}

// NewClusterRunner returns a ClusterRunner for the Nodes of a cluster, such as a manager, that is yet to be started. It makes no request.
// Start it once, as a manager does with what is added to it.
func NewClusterRunner(c ctrlcluster.Cluster, o ClusterOptions) (*ClusterRunner, error) {
	clients, err := kubernetes.NewForConfigAndClient(c.GetConfig(), c.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	evictor, err := NewRESTEvictor(clients)
	if err != nil {
		return nil, err
	}
	deleter, err := NewRESTDeleter(clients)
	if err != nil {
		return nil, err
	}
	live, err := client.NewWithWatch(c.GetConfig(), client.Options{
		HTTPClient: c.GetHTTPClient(), Scheme: c.GetScheme(), Mapper: c.GetRESTMapper(),
	})
	if err != nil {
		return nil, err
	}
	pods, err := NewScopedPodSource(live, ScopedOptions{})
	if err != nil {
		return nil, err
	}
	troubled := &listTroubles{by: map[string]error{}}
	beside, err := newBeside(c, troubled)
	if err != nil {
		return nil, fmt.Errorf("cache of volumes: %w", err)
	}
	d := &ClusterRunner{
		beside: beside, troubles: troubled, namespaces: newLazyNamespaces(beside, troubled), budgets: &lazyBudgets{Cache: beside, wanted: newFirstCall()},
	}
	cfg := Config{Nodes: c.GetClient(), Pods: pods, Evictor: evictor, Deleter: deleter, Budgets: d.budgets, Informers: d.budgets}
	if o.Volumes {
		d.volumes = newLazyVolumes(beside)
		cfg.Volumes = d.volumes
	}
	d.Runner, err = New(cfg)
	return d, err
}

// firstCall is a channel that the first call of done closes. Safe for concurrent use.
type firstCall struct {
	once sync.Once
	C    chan struct{}
}

func newFirstCall() *firstCall { return &firstCall{C: make(chan struct{})} }

func (f *firstCall) done() { f.once.Do(func() { close(f.C) }) }

// newBeside returns the cache of what only drains need to know. It asks the server for nothing before a caller asks for a kind, and so it is
// no hindrance that the server does not serve one.
func newBeside(c ctrlcluster.Cluster, t *listTroubles) (cache.Cache, error) {
	forCaches := c.GetHTTPClient()
	if own, ok := c.(interface{ CacheHTTPClient() *http.Client }); ok {
		forCaches = own.CacheHTTPClient()
	}
	return cache.New(c.GetConfig(), cache.Options{
		HTTPClient: forCaches, Scheme: scheme.Scheme, Mapper: c.GetRESTMapper(), DefaultTransform: trimBeside,
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			t.note(r.TypeDescription(), err)
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		},
	})
}

func trimBeside(obj any) (any, error) {
	trimNamespace(obj)
	return TrimVolumes(obj)
}

// listTroubles remember what the API server answered last when it was asked for the objects of a kind. Safe for concurrent use.
type listTroubles struct {
	mu sync.Mutex
	by map[string]error // Go type
}

// note remembers answers of the server: the text of other errors changes with each attempt.
func (t *listTroubles) note(kind string, err error) {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.by[kind] = err
	}
}

// why says what was answered, behind what waits for it; nothing when nothing is known.
func (t *listTroubles) why(kind client.Object) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.by[fmt.Sprintf("%T", kind)]; err != nil {
		return ": " + err.Error()
	}
	return ""
}

// want has all that drains need listed, so that volumes are there when the pods have left. The Runner asks for budgets before volumes.
func (d *ClusterRunner) want() {
	d.budgets.wanted.done()
	if d.volumes != nil {
		d.volumes.wanted.done()
	}
}

// StepVolumes does what Runner.StepVolumes does. While volumes are not listed, it says what the API server answers to that.
func (d *ClusterRunner) StepVolumes(ctx context.Context, req VolumeRequest) (VolumesResult, error) {
	d.want()
	result, err := d.Runner.StepVolumes(ctx, req)
	if err == nil && d.volumes != nil && !result.Done && len(result.Attached) == 0 {
		missing, unread := d.volumes.unread()
		switch {
		case unread != nil:
			result.Message += ": " + unread.Error()
		case missing != nil:
			result.Message += d.troubles.why(missing)
		}
	}
	return result, err
}

// Step does what Runner.Step does. While budgets are not listed, its Message says what the API server answers to that.
func (d *ClusterRunner) Step(ctx context.Context, req Request) (Result, error) {
	d.want()
	result, err := d.Runner.Step(ctx, req)
	if err == nil && result.Message == WaitsForBudgets {
		result.Message += d.troubles.why(&policyv1.PodDisruptionBudget{})
	}
	return result, err
}

// Start implements manager.Runnable.
func (d *ClusterRunner) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { _ = d.beside.Start(ctx) }) // fails only when it was started before, and then the Runner was too
	beside.Go(func() { d.namespaces.run(ctx) })
	return d.Runner.Start(ctx)
}

// lazyBudgets are PodDisruptionBudgets that are not listed before the first drain: a server that does not serve them, or does not allow them,
// is no hindrance for what drains nothing. A server that does not serve them has none. The API server holds evictions to budgets by itself.
type lazyBudgets struct {
	cache.Cache

	wanted *firstCall
}

// GetInformer implements Informers. It waits for the first drain; a Runner has nothing to send before that.
func (l *lazyBudgets) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.wanted.C:
	}
	informer, err := l.Cache.GetInformer(ctx, obj, opts...)
	if meta.IsNoMatchError(err) {
		return noInformer{}, nil
	}
	return informer, err
}

// List lists the budgets of a namespace: none where they are not served.
func (l *lazyBudgets) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Cache.List(ctx, list, opts...)
	if _, budgets := list.(*policyv1.PodDisruptionBudgetList); budgets && meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// noInformer is that of a kind that is not served: it has told all that there is.
type noInformer struct{ cache.Informer }

func (noInformer) HasSynced() bool { return true }

func (noInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil //nolint:nilnil // nothing is registered, and RemoveEventHandler gets it back
}

func (noInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }
