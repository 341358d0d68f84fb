package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Connection is the argument of Options.Setup.
type Connection struct {
	// Cluster is the client, cache and mapper, as described at View.Cluster.
	ctrlcluster.Cluster
	// Key is the namespace and the name of the cluster.
	Key types.NamespacedName

	life    context.Context //nolint:containedctx // ends with the connection
	running *sync.WaitGroup
	caches  *http.Client
}

// CacheHTTPClient returns the HTTP client for additional caches. A list may take as long as data keeps coming; requests of
// GetHTTPClient end after Options.Timeout.
func (c *Connection) CacheHTTPClient() *http.Client { return c.caches }

// Go runs a function until the connection ends. The function must return when its context ends: the end of the Clusters
// waits for it. Call Go only from Setup.
func (c *Connection) Go(run func(ctx context.Context)) {
	c.running.Go(func() { run(c.life) })
}

// session is one connection. It ends when its server does not serve any more.
type session[T any] struct {
	cluster ctrlcluster.Cluster
	cache   *nonBlockingCache
	value   T
	uid     types.UID // see View.UID
	wire    *wire
	listed  atomic.Bool // the first lists are complete

	callers, caches switchableTransport // they lead to the wire

	// Used only by the goroutine of the link.
	shown  *credentials
	probed time.Time // the last probe after trouble or silence

	life    context.Context //nolint:containedctx // ends with the connection
	end     context.CancelCauseFunc
	running sync.WaitGroup
}

// close ends a session at once and waits for its goroutines.
func (s *session[T]) close() {
	s.end(errClosed)
	s.wire.closeConns()
	s.running.Wait()
}

// open creates a session for a target.
func (l *link[T]) open(ctx context.Context, target Target) (*session[T], error) {
	if target.Config == nil {
		return nil, fmt.Errorf("%w: the Access returned a Target without Config", errInvalidKubeconfig)
	}
	s, o := &session[T]{}, &l.clusters.options
	s.life, s.end = context.WithCancelCause(ctx)
	s.wire = newWire(s.life, wireOptions{
		clock: o.Clock, patience: o.Patience, pingAfter: o.pingAfter, pingTimeout: o.pingTimeout,
	}, l.wake)
	if err := l.build(s, target); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (l *link[T]) build(s *session[T], target Target) error {
	c, err := l.credentialsOf(s, target)
	if err == nil {
		err = c.prober.probe(s.life)
	}
	if err != nil {
		return err
	}
	s.useCredentials(c)
	if s.cluster, err = l.newCluster(s, l.ownConfig(target)); err != nil {
		return &setupError{err}
	}
	if s.uid, err = uidOf(s.life, s.cluster.GetAPIReader()); err != nil {
		return &setupError{err}
	}
	if o := &l.clusters.options; o.Setup != nil {
		s.value, err = o.setup(s.end, &Connection{
			Cluster: s.cluster, Key: l.key, life: s.life, running: &s.running, caches: &http.Client{Transport: &s.caches},
		})
		if err != nil {
			return &setupError{err}
		}
	}
	s.running.Go(func() {
		if err := s.cluster.Start(s.life); err != nil {
			s.wire.trouble()
		}
	})
	s.running.Go(func() { l.watchSync(s) })
	return nil
}

// ownConfig returns the configuration of a target with the rates and the user agent of the Options.
func (l *link[T]) ownConfig(target Target) *rest.Config {
	o := &l.clusters.options
	config := rest.CopyConfig(target.Config)
	config.UserAgent, config.Timeout = o.UserAgent, 0
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	if o.QPS > 0 { // one for all clients: controller-runtime creates a client per kind
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.QPS, o.Burst)
	}
	return config
}

// setupError is an error between the first answer of the server and the end of Setup.
type setupError struct{ error }

func (e *setupError) Unwrap() error { return e.error }

// newCluster creates client, cache and mapper on the wire of a session. It makes no request, unless Options.Cache has
// settings by object: then it runs discovery.
func (l *link[T]) newCluster(s *session[T], config *rest.Config) (ctrlcluster.Cluster, error) {
	o := &l.clusters.options
	return ctrlcluster.New(config, func(c *ctrlcluster.Options) {
		c.Scheme, c.Logger, c.HTTPClient = o.Scheme, l.log, &http.Client{Transport: &s.callers}
		c.NewClient = newPatcher
		c.Cache = o.Cache
		c.Cache.HTTPClient = &http.Client{Transport: &s.caches}
		c.Cache.Scheme, c.Cache.Mapper = nil, nil // ctrlcluster.New sets those of the cluster
		c.Cache.ReaderFailOnMissingInformer = true
		c.Cache.DefaultWatchErrorHandler = l.watchErrors(s, o.Cache.DefaultWatchErrorHandler)
		c.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			slow, err := cache.New(config, options)
			s.cache = &nonBlockingCache{Cache: slow, scheme: o.Scheme, life: s.life, tracked: map[cache.Informer]schema.GroupVersionKind{}}
			return s.cache, err
		}
	})
}

// watchErrors reports errors of the first lists as a problem of the cluster.
func (l *link[T]) watchErrors(s *session[T], next toolscache.WatchErrorHandlerWithContext) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		if s.life.Err() == nil && !errors.Is(err, ErrNotConnected) {
			l.unlisted(s, plain(err))
		}
		if next != nil {
			next(ctx, r, err)
		} else {
			l.log.V(1).Info("a list or watch has ended", "kind", r.TypeDescription(), "error", err.Error())
		}
	}
}

// setup calls Options.Setup, and ends the connection if that takes too long.
func (o *Options[T]) setup(end context.CancelCauseFunc, c *Connection) (value T, err error) {
	timer := o.Clock.AfterFunc(o.connectTimeout, func() { end(timeoutError(o.connectTimeout)) })
	value, err = o.Setup(c.life, c)
	if !timer.Stop() { // its function may not have run yet
		end(timeoutError(o.connectTimeout))
	}
	if cause := context.Cause(c.life); cause != nil {
		err = cause
	}
	return value, err
}

// watchSync waits for the first lists and records that they are complete.
func (l *link[T]) watchSync(s *session[T]) {
	if s.cluster.GetCache().WaitForCacheSync(s.life) && s.life.Err() == nil {
		s.listed.Store(true) // before adopt, which reads it, or before synced, which finds the session adopted
		l.synced(s)
	}
}

// rewound reports whether the API server is at an older resource version than the caches, because its database was
// restored from a backup. There is no other signal: a watch from a future resource version receives neither an event nor
// an error until that version is reached, which may take days. If versions cannot be compared or may not be read, the
// server is not rewound.
func (s *session[T]) rewound(ctx context.Context) bool {
	for informer, kind := range s.cache.informers() {
		reader, ok := informer.(interface{ LastSyncResourceVersion() string })
		if !ok || !informer.HasSynced() {
			continue
		}
		seen, list := reader.LastSyncResourceVersion(), &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if s.cluster.GetAPIReader().List(ctx, list, client.Limit(1)) != nil {
			continue
		}
		order, err := resourceversion.CompareResourceVersion(list.GetResourceVersion(), seen)
		if err == nil && order < 0 {
			return true
		}
	}
	return false
}
