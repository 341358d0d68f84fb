package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Connection is the argument of Options.Setup.
type Connection struct {
	// Cluster has the client, cache and mapper, as described at View.Cluster.
	ctrlcluster.Cluster
	// Key is the namespace and the name of the cluster.
	Key types.NamespacedName

	life    context.Context //nolint:containedctx // ends with the connection
	running *sync.WaitGroup
	caches  *http.Client
}

// CacheHTTPClient returns the HTTP client for additional caches. A list may take as long as data arrives; requests of GetHTTPClient end
// after ten seconds.
func (c *Connection) CacheHTTPClient() *http.Client { return c.caches }

// Go runs a function until the connection ends. The function must return when its context ends: the end of the Clusters
// waits for it. Call Go only from Setup.
func (c *Connection) Go(run func(ctx context.Context)) {
	c.running.Go(func() { run(c.life) })
}

// session is one connection. It ends when its server no longer serves.
type session[T any] struct {
	cluster ctrlcluster.Cluster
	value   T
	uid     types.UID // see View.UID
	wire    *wire
	caches  *http.Client
	listed  atomic.Bool // the first lists are complete

	// Used only by the goroutine of the link.
	shown  *credentials
	probed time.Time // the last probe after trouble

	life    context.Context //nolint:containedctx // ends with the connection
	end     context.CancelFunc
	running sync.WaitGroup
}

// close ends a session at once and waits for its goroutines.
func (s *session[T]) close() {
	s.end()
	s.wire.conns.CloseAll()
	s.running.Wait()
}

// open creates a session for a target.
func (l *link[T]) open(ctx context.Context, target Target) (*session[T], error) {
	if target.Config == nil {
		return nil, fmt.Errorf("%w: the Access returned a Target without Config", errInvalidKubeconfig)
	}
	s, o := &session[T]{}, &l.clusters.options
	s.life, s.end = context.WithCancel(ctx)
	s.wire = &wire{clock: o.Clock, patience: o.patience, conns: connrotation.NewConnectionTracker(), life: s.life, wake: l.wake}
	s.caches = &http.Client{Transport: &ownTransport{wire: s.wire, limit: silence, caches: true}}
	if err := l.build(s, target); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (l *link[T]) build(s *session[T], target Target) error {
	c, err := l.try(s.life, s.wire, target)
	if err != nil {
		return err
	}
	s.use(c)
	if s.cluster, err = l.newCluster(s, l.ownConfig(target)); err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	if s.uid, err = readUID(s.life, s.cluster.GetAPIReader()); err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	if setup := l.clusters.options.Setup; setup != nil {
		c := &Connection{Cluster: s.cluster, Key: l.key, life: s.life, running: &s.running, caches: s.caches}
		if s.value, err = setup(s.life, c); err != nil {
			return fmt.Errorf("%w: %w", errSetup, err)
		}
	}
	s.running.Go(func() {
		if err := s.cluster.Start(s.life); err != nil {
			s.wire.trouble()
		}
	})
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

// newCluster creates client, cache and mapper on the wire of a session. It makes no request, unless Options.Cache has
// settings by object: then it runs discovery.
func (l *link[T]) newCluster(s *session[T], config *rest.Config) (ctrlcluster.Cluster, error) {
	o := &l.clusters.options
	return ctrlcluster.New(config, func(c *ctrlcluster.Options) {
		c.HTTPClient = &http.Client{Transport: &ownTransport{wire: s.wire, limit: o.timeout}}
		c.Cache = o.Cache
		c.Cache.HTTPClient = s.caches
		c.Cache.Scheme, c.Cache.Mapper = nil, nil // ctrlcluster.New sets those of the cluster
		c.Cache.ReaderFailOnMissingInformer = true
		c.NewClient = newPatcher
		c.Cache.DefaultWatchErrorHandler = l.watchErrors(s)
		c.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			slow, err := cache.New(config, options)
			return nonBlockingCache{slow, func() bool { return s.listed.Load() && s.life.Err() == nil }}, err
		}
	})
}

// watchErrors reports errors of the first lists as a problem of the cluster. Later lists and watches may end for harmless reasons; they are
// in the log.
func (l *link[T]) watchErrors(s *session[T]) toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		if s.listed.Load() {
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		problem, request := err, (*url.Error)(nil)
		if errors.As(err, &request) {
			problem = request.Err // without the address, which is another one each time
		}
		l.change(s, func(v *View[T]) {
			if !v.Synced {
				v.Problem = problem
			}
		})
	}
}

// watchSync waits for the first lists and records that they are complete.
func (l *link[T]) watchSync(s *session[T]) {
	if s.cluster.GetCache().WaitForCacheSync(s.life) && s.life.Err() == nil {
		s.listed.Store(true)
		l.change(s, func(v *View[T]) { v.Synced, v.Problem = true, nil })
	}
}
