package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/machinist-dev/machinist/drain"
)

// ErrNotListed matches the error about objects that are not listed yet. Ask again.
var ErrNotListed = errors.New("not listed yet")

// ClusterRunner is a Runner for the Nodes of one cluster. It lists what only drains need when the first Node is drained: attached volumes,
// labels of Namespaces, and PodDisruptionBudgets. It lists them in a cache of its own, because a source of controller-runtime waits for
// every informer of its cache. A kind that the API server does not serve, or does not allow to be listed, delays only what needs it; until
// then, the Message of a result contains the answer of the API server. It is safe for concurrent use.
type ClusterRunner struct {
	*Runner
	beside     cache.Cache
	namespaces *listing
}

// NewClusterRunner returns a ClusterRunner for the Nodes of a cluster, such as a manager, that is not started yet. It sends no request.
// Metrics are optional, as in Config. Start it once, for example by adding it to the manager.
func NewClusterRunner(c ctrlcluster.Cluster, metrics *Metrics) (*ClusterRunner, error) {
	failures := &listFailures{by: map[string]error{}}
	beside, err := newBeside(c, failures)
	if err != nil {
		return nil, fmt.Errorf("cache of the drain: %w", err)
	}
	clients := client.Options{HTTPClient: c.GetHTTPClient(), Scheme: c.GetScheme(), Mapper: c.GetRESTMapper()}
	cfg, _, err := configOver(c.GetConfig(), clients, beside)
	if err != nil {
		return nil, err
	}
	cfg.Nodes, cfg.Metrics, cfg.Volumes = c.GetClient(), metrics, true
	d := &ClusterRunner{beside: beside, namespaces: newListing(beside, "Namespaces", &corev1.Namespace{})}
	if d.Runner, err = New(cfg); err != nil {
		return nil, err
	}
	later := func(l *listing) { l.onDemand, l.failures = true, failures }
	later(d.budgetList)
	later(d.namespaces)
	volumes := newCachedVolumes(cfg.Informers)
	volumes.configure(later)
	volumes.attachmentList.emptyIfUnserved = true // without VolumeAttachments, nothing that could be read here is attached
	d.volumes = volumes
	d.budgetList.emptyIfUnserved = true // the API server respects budgets itself
	return d, nil
}

// newBeside returns a cache that sends no request before a kind is requested.
func newBeside(c ctrlcluster.Cluster, f *listFailures) (cache.Cache, error) {
	forCaches := c.GetHTTPClient()
	if own, ok := c.(interface{ CacheHTTPClient() *http.Client }); ok {
		forCaches = own.CacheHTTPClient()
	}
	return cache.New(c.GetConfig(), cache.Options{
		HTTPClient: forCaches, Scheme: scheme.Scheme, Mapper: c.GetRESTMapper(), DefaultTransform: trimBeside,
		DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			f.note(r.TypeDescription(), err)
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
		},
	})
}

// trimBeside removes what no drain reads. Objects from such a cache must not be written back.
func trimBeside(obj any) (any, error) {
	if namespace, ok := obj.(*corev1.Namespace); ok {
		namespace.ManagedFields, namespace.Annotations, namespace.OwnerReferences = nil, nil, nil
		namespace.Spec, namespace.Status = corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	}
	trimVolumes(obj)
	return obj, nil
}

// listFailures are the last answers of the API server to requests that failed, by kind. It is safe for concurrent use.
type listFailures struct {
	mu sync.Mutex
	by map[string]error // by Go type
}

// note records only answers of the API server: the text of other errors changes with each attempt.
func (f *listFailures) note(kind string, err error) {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.by[kind] = err
	}
}

// of returns the last answer about a kind.
func (f *listFailures) of(kind client.Object) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[fmt.Sprintf("%T", kind)]
}

// NamespaceLabels returns a function that finds labels in memory. It must not be called after ctx has ended. NamespaceLabels does not wait:
// until the Namespaces are listed, which begins with the first call, the error matches ErrNotListed.
func (d *ClusterRunner) NamespaceLabels(ctx context.Context) (drain.NamespaceLabels, error) {
	if known, _ := d.namespaces.ask(); !known {
		return nil, fmt.Errorf(
			"the Namespaces, whose labels drain rules ask for, are %w; if this lasts, look for missing list and watch permissions%s",
			ErrNotListed, d.namespaces.why())
	}
	return func(namespace string) (map[string]string, bool) {
		var found corev1.Namespace
		err := d.beside.Get(ctx, types.NamespacedName{Name: namespace}, &found)
		return found.Labels, err == nil // the Namespace of a Pod that is not found is not known yet
	}, nil
}

// Start implements manager.Runnable.
func (d *ClusterRunner) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { _ = d.beside.Start(ctx) }) // fails only when it was started before, and then Runner.Start fails too
	beside.Go(func() { _, _ = d.namespaces.open(ctx, nil) })
	return d.Runner.Start(ctx)
}
