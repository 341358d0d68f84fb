package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Standalone returns all that [Drain] needs of one cluster, for a program that has nothing but its address: live clients for
// Nodes and pods, evictions and deletions without hidden retries, and a cache that holds PodDisruptionBudgets only. Both
// results may be changed before they are used, and serve one Drain.
//
// client-go limits a client to 5 requests a second unless restConfig says otherwise; Standalone lifts that limit on a copy
// when QPS is 0 and there is no RateLimiter, because the Runner has limits of its own.
func Standalone(restConfig *rest.Config) (Config, DrainOptions, error) {
	if restConfig == nil {
		return Config{}, DrainOptions{}, errors.New("standalone drain: the rest config is nil")
	}
	restConfig = rest.CopyConfig(restConfig)
	if restConfig.QPS == 0 && restConfig.RateLimiter == nil {
		restConfig.QPS = -1
	}
	life, end := context.WithCancel(context.Background()) //nolint:forbidigo // it ends with the drain, whose context comes later
	cfg, options, err := standalone(life, restConfig)
	if err != nil {
		end()
		return Config{}, DrainOptions{}, fmt.Errorf("standalone drain: %w", err)
	}
	start := options.Beside
	options.Beside = func(ctx context.Context) error {
		defer context.AfterFunc(ctx, end)()
		return start(ctx)
	}
	return cfg, options, nil
}

// standalone makes the results of Standalone. Requests for what kinds there are end with ctx.
func standalone(ctx context.Context, restConfig *rest.Config) (Config, DrainOptions, error) {
	clientset, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(restConfig, discoveryClient(ctx, httpClient))
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	live, err := client.NewWithWatch(restConfig, client.Options{Scheme: scheme.Scheme, HTTPClient: httpClient, Mapper: mapper})
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	budgets, err := cache.New(restConfig, cache.Options{Scheme: scheme.Scheme, HTTPClient: httpClient, Mapper: mapper})
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	evictor, err := NewRESTEvictor(clientset)
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	deleter, err := NewRESTDeleter(clientset)
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	pods, err := NewScopedPodSource(live, ScopedOptions{})
	if err != nil {
		return Config{}, DrainOptions{}, err
	}
	cfg := Config{Nodes: live, Pods: pods, Evictor: evictor, Deleter: deleter, Budgets: budgets, Informers: budgets}
	return cfg, DrainOptions{Nodes: live, Beside: budgets.Start}, nil
}

// discoveryClient asks a server which kinds it serves. These requests know no context of their callers: a server that does not answer
// would hold up the end of a drain. They end with a life, and none takes longer than ten seconds.
func discoveryClient(life context.Context, c *http.Client) *http.Client {
	base := c.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	bounded := *c
	bounded.Timeout = 10 * time.Second
	bounded.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(req.Context())
		stop := context.AfterFunc(life, cancel)
		resp, err := base.RoundTrip(req.WithContext(ctx))
		if err != nil {
			stop()
			cancel()
			return nil, err
		}
		resp.Body = &bodyUntilClosed{ReadCloser: resp.Body, closed: func() { stop(); cancel() }}
		return resp, nil
	})
	return &bounded
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// bodyUntilClosed tells when nothing more is read.
type bodyUntilClosed struct {
	io.ReadCloser
	closed func()
}

// Close implements io.Closer.
func (b *bodyUntilClosed) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}
