package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// targetLimit is the timeout of one call of Access.
	targetLimit = 30 * time.Second
	// probeGap is the minimum time between two probes after trouble: a webhook that always fails must not cause constant probes.
	probeGap = 2 * time.Second
)

// link maintains the connection to one cluster while it is used. One goroutine does the work; other goroutines only
// read.
type link[T any] struct {
	clusters *Clusters[T]
	key      types.NamespacedName
	wakeups  chan struct{}
	news     atomic.Bool // the Access reported a change of the target

	// Used only by the goroutine.
	pauses  wait.Backoff
	retryAt time.Time
	changed bool // the target must be read again

	cancel context.CancelFunc // guarded by the mu of Clusters; nil before launch

	mu      sync.Mutex
	session *session[T] // nil while there is none
	view    View[T]     // LastSeen is that of earlier sessions
	err     *NotConnectedError
	asked   time.Time
}

func newLink[T any](c *Clusters[T], key types.NamespacedName) *link[T] {
	return &link[T]{
		clusters: c, key: key, wakeups: make(chan struct{}, 1),
		pauses: c.options.Backoff, asked: c.options.Clock.Now(),
		view: View[T]{Reason: ReasonConnecting}, err: &NotConnectedError{Cluster: key, Reason: ReasonConnecting},
	}
}

// wake wakes the goroutine. It never blocks.
func (l *link[T]) wake() {
	select {
	case l.wakeups <- struct{}{}:
	default:
	}
}

// run works until ctx ends or the cluster is no longer used.
func (l *link[T]) run(ctx context.Context) {
	defer func() {
		if s := l.current(); s != nil {
			s.close()
		}
	}()
	for ctx.Err() == nil {
		if l.news.Swap(false) {
			l.changed = true
			l.resetPauses()
		}
		do, at := l.next()
		rest := at.Sub(l.clusters.options.Clock.Now())
		if rest <= 0 {
			do(ctx)
			continue
		}
		timer := l.clusters.options.Clock.NewTimer(rest)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-l.wakeups:
		}
		timer.Stop()
	}
}

// next returns the next action, and when it is due.
func (l *link[T]) next() (do func(context.Context), at time.Time) {
	l.mu.Lock()
	s, do, at := l.session, l.retire, l.asked.Add(l.clusters.options.idle)
	l.mu.Unlock()
	if (s == nil || l.changed) && l.retryAt.Before(at) {
		do, at = l.connect, l.retryAt
	}
	if s != nil && s.wire.troubled.Load() && s.probed.Add(probeGap).Before(at) {
		do, at = l.examine, s.probed.Add(probeGap)
	}
	return do, at
}

func (l *link[T]) resetPauses() { l.pauses, l.retryAt = l.clusters.options.Backoff, time.Time{} }

func (l *link[T]) pause() { l.retryAt = l.clusters.options.Clock.Now().Add(l.pauses.Step()) }

// retire ends the link if its cluster is not used.
func (l *link[T]) retire(context.Context) {
	c := l.clusters
	named := c.named(l.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := c.options.Clock.Now()
	if named {
		l.asked = now
	}
	if now.Before(l.asked.Add(c.options.idle)) {
		return
	}
	delete(c.links, l.key)
	l.cancel()
}

// connect reads the target, and connects to it unless the current connection already does. After a failure, a working connection is
// retained unless there is no kubeconfig any more.
func (l *link[T]) connect(ctx context.Context) {
	l.changed = true // until success
	reason, s := ReasonKubeconfigUnread, l.current()
	target, err := l.target(ctx)
	if err == nil {
		reason, err = ReasonUnreachable, l.reach(ctx, s, target)
	}
	reason = reasonOf(err, reason)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		l.changed = false
		l.resetPauses()
		return
	case s != nil && reason != ReasonNoKubeconfig:
		l.change(s, func(v *View[T]) { v.Problem = err })
	default:
		l.disconnect(reason, err)
	}
	l.pause()
}

func (l *link[T]) target(ctx context.Context) (Target, error) {
	ctx, cancel := context.WithTimeout(ctx, targetLimit)
	defer cancel()
	return l.clusters.options.Access.Target(ctx, l.key)
}

// reach connects to a target. A working connection remains until the new one is ready, so that a new kubeconfig causes no disconnection.
func (l *link[T]) reach(ctx context.Context, s *session[T], target Target) error {
	switch {
	case s != nil && s.shown.Version == target.Version:
		l.change(s, func(v *View[T]) { v.Problem = nil })
		return nil
	case s != nil && target.Config != nil && onlyCredentials(s.shown.Config, target.Config):
		return l.exchange(ctx, s, target)
	}
	next, err := l.open(ctx, target)
	if err != nil {
		return err
	}
	l.replace(next, View[T]{Cluster: next.cluster, Value: next.value, UID: next.uid}, nil)
	next.running.Go(func() { l.watchSync(next) })
	return nil
}

// examine checks whether a connection that had trouble still works, and belongs to the same cluster.
func (l *link[T]) examine(ctx context.Context) {
	s := l.current()
	s.wire.troubled.Store(false)
	s.probed = l.clusters.options.Clock.Now()
	err := l.probe(ctx, s.wire, s.shown)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.resetPauses()
		l.pause()
		l.disconnect(reasonOf(err, ReasonUnreachable), err)
	case s.confirmOther(ctx):
		l.disconnect(ReasonConnecting, nil)
	}
}

// disconnect ends the current session, if there is one, and stores the reason.
func (l *link[T]) disconnect(reason Reason, err error) {
	l.replace(nil, View[T]{Reason: reason}, &NotConnectedError{Cluster: l.key, Reason: reason, Err: err})
}

// replace ends the current session without waiting for its goroutines, and makes next the current one. failure is the reason when next is
// nil.
func (l *link[T]) replace(next *session[T], view View[T], failure *NotConnectedError) {
	l.mu.Lock()
	before, old := l.view, l.session
	view.LastSeen = l.lastSeen()
	if failure != nil {
		failure.LastSeen = view.LastSeen
	}
	l.session, l.view, l.err = next, view, failure
	l.mu.Unlock()
	if old != nil {
		old.end()
		l.clusters.running.Go(old.close)
	}
	if failure == nil || old != nil || before.Reason != view.Reason {
		l.clusters.notify(l.key)
	}
}

// change changes the view of a session, if that is the current one, and wakes the subscribers if the difference is visible to them.
func (l *link[T]) change(s *session[T], f func(*View[T])) {
	l.mu.Lock()
	before := l.view
	if l.session == s {
		f(&l.view)
	}
	visible := before.Synced != l.view.Synced || (before.Problem == nil) != (l.view.Problem == nil)
	l.mu.Unlock()
	if visible {
		l.clusters.notify(l.key)
	}
}

func (l *link[T]) current() *session[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// lastSeen returns the time of the last sign of life. It requires mu.
func (l *link[T]) lastSeen() time.Time {
	if l.session != nil {
		return l.session.wire.lastSeen()
	}
	return l.view.LastSeen
}

func reasonOf(err error, otherwise Reason) Reason {
	switch {
	case errors.Is(err, errSetup):
		return ReasonSetupFailed
	case errors.Is(err, ErrNoKubeconfig):
		return ReasonNoKubeconfig
	case errors.Is(err, errInvalidKubeconfig), errors.Is(err, ErrUnsafeKubeconfig):
		return ReasonKubeconfigRefused
	case errors.Is(err, errUnauthorized):
		return ReasonUnauthorized
	default:
		return otherwise
	}
}
