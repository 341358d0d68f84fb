package cluster

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Clusters holds a connection to every workload cluster in use. A cluster is in use while callers call Get for it, or a Mapper of a Source
// returns requests for it. After ten minutes without use it is disconnected. T is the type of the value that Options.Setup returns for a
// connection.
//
// A Clusters is a manager.Runnable that does not need leader election. It is safe for concurrent use. Create one with [New].
type Clusters[T any] struct {
	options Options[T]
	running sync.WaitGroup

	mu    sync.Mutex
	life  context.Context //nolint:containedctx // the context of Start; nil before
	links map[types.NamespacedName]*link[T]

	sinks sync.Map // of started Sources, *sink
}

var (
	_ manager.Runnable               = (*Clusters[struct{}])(nil)
	_ manager.LeaderElectionRunnable = (*Clusters[struct{}])(nil)
)

// New returns a Clusters that connects to nothing before [Clusters.Start]. The error reports all problems of the options.
func New[T any](options Options[T]) (*Clusters[T], error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("new clusters: %w", err)
	}
	return &Clusters[T]{options: options, links: map[types.NamespacedName]*link[T]{}}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. A replica that is not the leader does not call Get, so it has no
// connections.
func (c *Clusters[T]) NeedLeaderElection() bool { return false }

// Start runs until ctx ends, and returns when all its goroutines have ended. It can be called once.
func (c *Clusters[T]) Start(ctx context.Context) error {
	if notifier, ok := c.options.Access.(notifier); ok {
		if err := notifier.notify(ctx, c.changed); err != nil {
			return fmt.Errorf("start clusters: %w", err)
		}
	}
	c.mu.Lock()
	c.life = ctx
	for _, l := range c.links {
		c.launch(l)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	clear(c.links) // launch starts nothing after this, so that Wait sees every goroutine
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// launch starts the goroutine of a link. It requires mu, and does nothing before Start or after its end.
func (c *Clusters[T]) launch(l *link[T]) {
	if c.life == nil || c.life.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.life)
	l.cancel = cancel
	c.running.Go(func() {
		defer cancel()
		l.run(ctx)
	})
}

// Get returns the state of a cluster, without waiting and without a request. The first Get starts the connection in the background; a
// Source reports changes. When the cluster is not connected, the error is a *NotConnectedError: it matches ErrNotConnected and its cause,
// such as ErrNoKubeconfig. The view is valid in any case: it has the time when the cluster was last seen.
func (c *Clusters[T]) Get(cluster types.NamespacedName) (View[T], error) {
	c.mu.Lock()
	if c.life != nil && c.life.Err() != nil {
		c.mu.Unlock()
		return View[T]{Reason: ReasonStopped}, &NotConnectedError{Cluster: cluster, Reason: ReasonStopped}
	}
	l := c.links[cluster]
	if l == nil {
		l = newLink(c, cluster)
		c.links[cluster] = l
		c.launch(l)
	}
	c.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = c.options.Clock.Now()
	view := l.view
	view.LastSeen = l.lastSeen()
	if l.err != nil {
		return view, l.err
	}
	return view, nil
}

// changed is the callback of a notifier: it causes an immediate attempt.
func (c *Clusters[T]) changed(cluster types.NamespacedName) {
	c.mu.Lock()
	l := c.links[cluster]
	c.mu.Unlock()
	if l != nil {
		l.news.Store(true)
		l.wake()
	}
}
