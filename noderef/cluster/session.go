package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Connection is the argument of Options.Setup.
type Connection struct {
	// Cluster is the client, cache and mapper, as described at View.Cluster.
	ctrlcluster.Cluster
	// Key is the namespace and the name of the cluster; for a shared Target that is Running, those of the first
	// cluster.
	Key types.NamespacedName

	life    context.Context //nolint:containedctx // ends with the connection
	running *sync.WaitGroup
	caches  *http.Client
}

// CacheHTTPClient returns the HTTP client for additional caches. Its requests wait while the server is lost, and a list
// may take as long as data keeps coming; requests of GetHTTPClient fail at once and end after Options.Timeout. For a
// Target that is Running both are the same.
func (c *Connection) CacheHTTPClient() *http.Client {
	if c.caches == nil {
		return c.GetHTTPClient()
	}
	return c.caches
}

// Go runs a function until the connection ends. The function must return when its context ends: the end of the Clusters
// waits for it. Call Go only from Setup.
func (c *Connection) Go(run func(ctx context.Context)) {
	c.running.Go(func() { run(c.life) })
}

// session is one connection.
type session[T any] struct {
	cluster ctrlcluster.Cluster
	value   T
	wire    *wire // nil for a Target that is Running
	clock   interface{ Now() time.Time }
	probed  time.Time   // the last probe after trouble or silence; used by the link's goroutine
	listed  atomic.Bool // the first lists are complete

	giveBack func(replaced bool) // releases the value that it shares with others; nil if it shares none
	replaced bool                // another cluster has replaced its Target.Running

	callers, caches switchableTransport // they lead to the wire

	// Used only by the goroutine of the link.
	shown               *credentials
	behind              []informerProgress // the informers that had not caught up at checkedAt
	regained, checkedAt time.Time          // the end of the last outage, and the last check of behind

	life    context.Context //nolint:containedctx // ends with the connection
	end     context.CancelCauseFunc
	running sync.WaitGroup
}

func (s *session[T]) lastSeen() time.Time {
	if s.wire == nil {
		return s.clock.Now()
	}
	return s.wire.lastSeen()
}

// reaches reports whether the session is a connection to a target.
func (s *session[T]) reaches(target Target) bool {
	if target.Running == nil {
		return s.wire != nil && s.shown.version == target.Version
	}
	return s.wire == nil && reflect.ValueOf(target.Running).Comparable() && s.cluster == target.Running
}

// close ends a session at once and waits for its goroutines.
func (s *session[T]) close() {
	s.end(errClosed)
	if s.wire != nil {
		s.wire.closeConns()
	}
	s.running.Wait()
	if s.giveBack != nil {
		s.giveBack(s.replaced)
	}
}

// open creates a session for a target. It probes first, so that a server that does not answer takes no build slot.
func (l *link[T]) open(ctx context.Context, target Target) (*session[T], error) {
	s := &session[T]{clock: l.clusters.options.Clock}
	s.life, s.end = context.WithCancelCause(ctx)
	err := l.build(s, target)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (l *link[T]) build(s *session[T], target Target) error {
	switch {
	case target.Running != nil:
		return l.borrow(s, target.Running)
	case target.Config == nil:
		return fmt.Errorf("%w: the Access returned a Target without Config and without Running", errInvalidKubeconfig)
	}
	o := &l.clusters.options
	s.wire = newWire(s.life, wireOptions{
		clock: o.Clock, patience: o.Patience, pingAfter: o.pingAfter, pingTimeout: o.pingTimeout,
	}, l.wake)
	c, err := l.credentialsOf(s, target)
	if err != nil {
		return err
	}
	if err := c.prober.probe(s.life); err != nil {
		return err
	}
	s.useCredentials(c)
	leave, err := l.clusters.buildSlot(s.life)
	if err != nil {
		return err
	}
	defer leave()
	s.wire.gate.open()
	if s.cluster, err = l.newCluster(s, l.ownConfig(target)); err != nil {
		return &setupError{err}
	}
	if o.Setup != nil {
		s.value, err = o.setup(s.end, &Connection{
			Cluster: s.cluster, Key: l.key, life: s.life, running: &s.running, caches: &http.Client{Transport: &s.caches},
		})
		if err != nil {
			return &setupError{err}
		}
	}
	s.running.Go(func() {
		if err := s.cluster.Start(s.life); err != nil {
			s.wire.trouble(err)
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
			return &nonBlockingCache{Cache: slow, scheme: o.Scheme, life: s.life}, err
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
