package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Standalone returns what [Drain] requires for one cluster, for a program that has only its address: live clients for Nodes and Pods,
// evictions and deletions without retries in the client, and a cache that holds only PodDisruptionBudgets. Both results may be changed
// before they are used. They serve one Drain.
//
// client-go limits a client to 5 requests a second unless restConfig contains another limit. Standalone removes that limit on a copy when
// QPS is 0 and RateLimiter is nil, because the Runner has limits of its own.
func Standalone(restConfig *rest.Config) (Config, DrainOptions, error) {
	if restConfig == nil {
		return Config{}, DrainOptions{}, errors.New("standalone drain: the rest config is nil")
	}
	restConfig = rest.CopyConfig(restConfig)
	if restConfig.QPS == 0 && restConfig.RateLimiter == nil {
		restConfig.QPS = -1
	}
	if restConfig.UserAgent == "" {
		restConfig.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	life, end := context.WithCancel(context.Background()) //nolint:forbidigo // it ends with the drain, whose context comes later
	cfg, options, err := standalone(life, restConfig)
	if err != nil {
		end()
		return Config{}, DrainOptions{}, fmt.Errorf("standalone drain: %w", err)
	}
	start := cfg.beside
	cfg.beside = func(ctx context.Context) error {
		defer context.AfterFunc(ctx, end)()
		return start(ctx)
	}
	return cfg, options, nil
}

// standalone makes the results of Standalone. Discovery requests end with ctx.
func standalone(ctx context.Context, restConfig *rest.Config) (cfg Config, options DrainOptions, err error) {
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return cfg, options, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(restConfig, discoveryClient(ctx, httpClient))
	if err != nil {
		return cfg, options, err
	}
	budgets, err := cache.New(restConfig, cache.Options{Scheme: scheme.Scheme, HTTPClient: httpClient, Mapper: mapper})
	if err != nil {
		return cfg, options, err
	}
	cfg, live, err := configOver(restConfig, client.Options{Scheme: scheme.Scheme, HTTPClient: httpClient, Mapper: mapper}, budgets)
	cfg.beside = budgets.Start
	return cfg, DrainOptions{Nodes: live}, err
}

// configOver returns a Config that sends requests through live clients and reads budgets from the cache, and its client for Nodes and Pods.
func configOver(restConfig *rest.Config, o client.Options, budgets cache.Cache) (Config, client.WithWatch, error) {
	clientset, err := kubernetes.NewForConfigAndClient(restConfig, o.HTTPClient)
	if err != nil {
		return Config{}, nil, err
	}
	live, err := client.NewWithWatch(restConfig, o)
	if err != nil {
		return Config{}, nil, err
	}
	pods, errPods := NewScopedPodSource(live)
	evictor, errEvictor := NewRESTEvictor(clientset)
	deleter, errDeleter := NewRESTDeleter(clientset)
	cfg := Config{Nodes: live, Pods: pods, Evictor: evictor, Deleter: deleter, Budgets: budgets, Informers: budgets}
	return cfg, live, errors.Join(errPods, errEvictor, errDeleter)
}

// discoveryClient returns a client for discovery requests, which ignore the contexts of their callers: an API server that does not answer
// would delay the end of a drain. The requests end with life, and after 10 seconds at the latest.
func discoveryClient(life context.Context, c *http.Client) *http.Client {
	base := cmp.Or(c.Transport, http.DefaultTransport)
	bounded := *c
	bounded.Timeout = 10 * time.Second
	bounded.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(req.Context())
		context.AfterFunc(life, cancel) // it stays until the end of the life: there are few such requests
		return base.RoundTrip(req.WithContext(ctx))
	})
	return &bounded
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
