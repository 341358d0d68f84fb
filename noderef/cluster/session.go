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

// Connection is what Options.Setup is given.
type Connection struct {
	// Cluster is the client, cache and mapper. What is said about View.Cluster holds here too.
	ctrlcluster.Cluster
	// Key is the namespace and the name of the cluster; of the first one that asked when several share a Target that is
	// Running.
	Key types.NamespacedName

	life    context.Context //nolint:containedctx // ends with the connection
	running *sync.WaitGroup
	caches  *http.Client
}

// CacheHTTPClient returns what caches beside that of the connection send their requests with: those wait while the server is lost, and a
// list may take as long as something comes of it, while GetHTTPClient fails at once and ends after Options.Timeout. Of a Target that is
// Running both are the same.
func (c *Connection) CacheHTTPClient() *http.Client {
	if c.caches == nil {
		return c.GetHTTPClient()
	}
	return c.caches
}

// Go runs a function until the connection ends. It has to return when its context does: the end of the Clusters waits for it.
// It is to be called from Setup only.
func (c *Connection) Go(run func(ctx context.Context)) {
	c.running.Go(func() { run(c.life) })
}

// session is one connection.
type session[T any] struct {
	cluster ctrlcluster.Cluster
	value   T
	wire    *wire // nil when the caller runs the cluster
	clock   interface{ Now() time.Time }
	probed  time.Time   // when doubts last had the server probed; belongs to the goroutine of the link
	listed  atomic.Bool // the first lists are complete

	giveBack func(replaced bool) // lets go of what it shares with others; nil when that is nothing
	replaced bool                // there is another cluster in the place of its own

	callers, caches entrance // into the wire

	// Of the goroutine of the link.
	shown              *credentials
	behind             []laggard // what has yet to catch up with the server since it was
	regained, surveyed time.Time // and when that was last checked

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

// reaches reports whether the session is what a target leads to.
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
		s.wire.hangUp()
	}
	s.running.Wait()
	if s.giveBack != nil {
		s.giveBack(s.replaced)
	}
}

// open makes a session for a target: probe first, because servers that do not answer must not take one of the places where
// connections are built.
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
		return fmt.Errorf("%w: the Access returned a Target without Config and without Running", ErrInvalidKubeconfig)
	}
	o := &l.clusters.options
	s.wire = newWire(s.life, wireOptions{
		clock: o.Clock, patience: o.Patience, pingAfter: o.PingAfter, pingTimeout: o.PingTimeout,
	}, l.poke)
	c, err := l.credentialsOf(s, target)
	if err != nil {
		return err
	}
	if err := c.prober.probe(s.life); err != nil {
		return err
	}
	s.show(c)
	leave, err := l.clusters.place(s.life)
	if err != nil {
		return err
	}
	defer leave()
	s.wire.gate.open()
	if s.cluster, err = l.newCluster(s, l.ownConfig(target)); err != nil {
		return &setupError{err}
	}
	if s.value, err = l.setup(s); err != nil {
		return &setupError{err}
	}
	s.running.Go(func() {
		if err := s.cluster.Start(s.life); err != nil {
			s.wire.trouble(err)
		}
	})
	s.running.Go(func() { l.watchSync(s) })
	return nil
}

// ownConfig is the configuration of a target with the rates and the user agent of the Options.
func (l *link[T]) ownConfig(target Target) *rest.Config {
	o := &l.clusters.options
	config := rest.CopyConfig(target.Config)
	config.UserAgent, config.Timeout = o.UserAgent, 0
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	if o.QPS > 0 { // one for all clients: controller-runtime makes one for each kind
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.QPS, o.Burst)
	}
	return config
}

// setupError is what goes wrong between the first answer of the server and the end of Setup.
type setupError struct{ error }

func (e *setupError) Unwrap() error { return e.error }

// newCluster makes client, cache and mapper around the wire of a session. It makes no request unless Options.Cache has
// settings by object, for which it asks for the kinds that the server has.
func (l *link[T]) newCluster(s *session[T], config *rest.Config) (ctrlcluster.Cluster, error) {
	o := &l.clusters.options
	return ctrlcluster.New(config, func(c *ctrlcluster.Options) {
		c.Scheme, c.Logger, c.HTTPClient = o.Scheme, l.log, &http.Client{Transport: &s.callers}
		c.NewClient = newPatcher
		c.Cache = o.Cache
		c.Cache.HTTPClient = &http.Client{Transport: &s.caches}
		c.Cache.Scheme, c.Cache.Mapper = nil, nil // those of the cluster
		c.Cache.ReaderFailOnMissingInformer = true
		c.Cache.DefaultWatchErrorHandler = l.watchErrors(s, o.Cache.DefaultWatchErrorHandler)
		c.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			slow, err := cache.New(config, options)
			return &promptCache{Cache: slow, scheme: o.Scheme, life: s.life}, err
		}
	})
}

// watchErrors makes what keeps the first lists from completing a problem of the cluster.
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

// setup calls Options.Setup, and ends the session when that takes too long.
func (l *link[T]) setup(s *session[T]) (value T, err error) {
	o := &l.clusters.options
	if o.Setup == nil {
		return value, nil
	}
	timer := o.Clock.AfterFunc(o.ConnectTimeout, func() { s.end(timeoutError(o.ConnectTimeout)) })
	defer timer.Stop()
	value, err = o.Setup(s.life, &Connection{
		Cluster: s.cluster, Key: l.key, life: s.life, running: &s.running, caches: &http.Client{Transport: &s.caches},
	})
	if cause := context.Cause(s.life); cause != nil {
		err = cause
	}
	return value, err
}

// watchSync makes it known that the first lists are complete.
func (l *link[T]) watchSync(s *session[T]) {
	if s.cluster.GetCache().WaitForCacheSync(s.life) && s.life.Err() == nil {
		s.listed.Store(true) // before adopt, which looks, or before synced, which finds the session adopted
		l.synced(s)
	}
}
