package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// link maintains the connection to one cluster while it is used. One goroutine does the work; other goroutines only
// read.
type link[T any] struct {
	clusters *Clusters[T]
	key      types.NamespacedName
	log      logr.Logger
	wakeups  chan struct{}

	// Used only by the goroutine.
	pauses  wait.Backoff
	retryAt time.Time
	changed bool // the target must be read again

	cancel context.CancelFunc // guarded by the mu of Clusters; nil before launch

	mu         sync.Mutex
	state      state[T]
	asked      time.Time
	targetNews bool // the notifier reported a change of the target
}

func newLink[T any](c *Clusters[T], key types.NamespacedName) *link[T] {
	now := c.options.Clock.Now()
	return &link[T]{
		clusters: c, key: key, wakeups: make(chan struct{}, 1),
		log: c.options.Logger.WithValues("cluster", key.String()), pauses: c.options.Backoff, asked: now,
		state: state[T]{reason: ReasonConnecting, since: now, err: &NotConnectedError{Cluster: key, Reason: ReasonConnecting}},
	}
}

// wake wakes the goroutine. It never blocks.
func (l *link[T]) wake() {
	select {
	case l.wakeups <- struct{}{}:
	default:
	}
}

// targetChanged says that the target may have changed: the next attempt comes at once.
func (l *link[T]) targetChanged() {
	l.mu.Lock()
	l.targetNews = true
	l.mu.Unlock()
	l.wake()
}

// run works until ctx ends or the cluster is no longer used.
func (l *link[T]) run(ctx context.Context) {
	defer func() {
		if s := l.current(); s != nil {
			s.close()
		}
	}()
	for ctx.Err() == nil {
		next, wake := decide(l.facts(), l.clusters.options.silence, l.clusters.options.idle)
		switch next {
		case pause:
			l.sleep(ctx, wake)
		case connect:
			l.connect(ctx)
		case examine:
			l.examine(ctx)
		case retire:
			if l.clusters.retire(l) {
				l.log.V(1).Info("the cluster is no longer used: disconnecting")
				return
			}
		}
	}
}

// sleep waits until a time, or until wake is called.
func (l *link[T]) sleep(ctx context.Context, until time.Time) {
	timer := l.clusters.options.Clock.NewTimer(until.Sub(l.clusters.options.Clock.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-l.wakeups:
	}
}

func (l *link[T]) facts() facts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.targetNews {
		l.targetNews, l.changed = false, true
		l.resetPauses()
	}
	f := facts{Now: l.clusters.options.Clock.Now(), Asked: l.asked, Changed: l.changed, RetryAt: l.retryAt, Seen: l.state.lastSeen()}
	if s := l.state.session; s != nil {
		f.Connected, f.Troubled, f.Probed = true, s.wire.troubled.Load(), s.probed
	}
	return f
}

func (l *link[T]) resetPauses() { l.pauses, l.retryAt = l.clusters.options.Backoff, time.Time{} }

// connect reads the target, and connects to it unless the current connection leads there. While that one works, the new
// one is created beside it, so that a new kubeconfig causes no disconnection.
func (l *link[T]) connect(ctx context.Context) {
	l.changed = true // until it has succeeded
	target, err := l.target(ctx)
	reason := ReasonKubeconfigUnread
	if err == nil {
		reason, err = ReasonUnreachable, l.reach(ctx, target)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.failed(reasonOf(err, reason), err)
	default:
		l.changed = false
		l.resetPauses()
	}
}

// target calls the Access.
func (l *link[T]) target(ctx context.Context) (Target, error) {
	ctx, end := withLimit(ctx, l.clusters.options.Clock, l.clusters.options.connectTimeout)
	defer end()
	return l.clusters.options.Access.Target(ctx, l.key)
}

func (l *link[T]) reach(ctx context.Context, target Target) error {
	s := l.current()
	switch {
	case s != nil && s.shown.version == target.Version:
		l.report(s, nil)
		return nil
	case s != nil && target.Config != nil && onlyCredentials(s.shown.config, target.Config):
		return l.exchange(ctx, s, target)
	}
	next, err := l.open(ctx, target)
	if err == nil {
		l.adopt(next)
	}
	return err
}

// examine checks whether a connection that was silent or troubled still works.
func (l *link[T]) examine(ctx context.Context) {
	s := l.current()
	doubtful := !s.wire.troubled.Swap(false) // it was silent
	doubtful = s.wire.broken.Swap(false) || doubtful
	s.probed = l.clusters.options.Clock.Now()
	err := s.shown.prober.probe(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.resetPauses()
		l.retryAt = l.clusters.options.Clock.Now().Add(l.pauses.Step())
		l.disconnect(reasonOf(err, ReasonUnreachable), err)
	case doubtful && (s.rewound(ctx) || s.isOther(ctx)): // another server may have answered
		l.log.Info("the API server is at an older resource version than its caches, as after a restore, or of another cluster: reconnecting")
		l.resetPauses()
		l.disconnect(ReasonConnecting, nil)
	}
}

// failed records a failed attempt. A connection that works is kept, unless nothing tells any more how to reach the cluster.
func (l *link[T]) failed(reason Reason, err error) {
	l.retryAt = l.clusters.options.Clock.Now().Add(l.pauses.Step())
	if s := l.current(); s != nil && reason != ReasonNoKubeconfig {
		l.report(s, err)
		return
	}
	l.disconnect(reason, err)
}

// current returns the session, or nil.
func (l *link[T]) current() *session[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.session
}

// change updates the state, and wakes the subscribers if they can see a difference.
func (l *link[T]) change(f func(*state[T])) {
	l.mu.Lock()
	before := l.state
	f(&l.state)
	after := &l.state
	if (before.session == nil) != (after.session == nil) {
		after.since = l.clusters.options.Clock.Now()
	}
	tell := before.reason != after.reason || before.synced != after.synced || before.session != after.session ||
		(before.problem == nil) != (after.problem == nil)
	l.mu.Unlock()
	if tell {
		l.clusters.tell(l.key)
	}
}

// adopt makes a new session the current one.
func (l *link[T]) adopt(s *session[T]) {
	old := l.current()
	l.log.Info("connected")
	l.change(func(st *state[T]) {
		*st = state[T]{session: s, since: st.since, seen: st.lastSeen(), synced: s.listed.Load()}
	})
	l.discard(old)
}

// disconnect ends the current session, if there is one, and records why there is none.
func (l *link[T]) disconnect(reason Reason, err error) {
	old := l.current()
	l.change(func(st *state[T]) {
		if st.reason != reason {
			l.log.Info("not connected", "reason", reason.String(), "error", err)
		}
		failure := &NotConnectedError{Cluster: l.key, Reason: reason, Err: err, LastSeen: st.lastSeen()}
		*st = state[T]{reason: reason, err: failure, since: st.since, seen: failure.LastSeen}
	})
	l.discard(old)
}

// discard ends a session without waiting for its goroutines.
func (l *link[T]) discard(s *session[T]) {
	if s != nil {
		s.end(errClosed)
		l.clusters.running.Go(s.close)
	}
}

// report records a problem of a connected cluster; nil clears it.
func (l *link[T]) report(s *session[T], problem error) {
	l.change(func(st *state[T]) {
		if st.session == s {
			st.problem = problem
		}
	})
}

// unlisted records why the first lists of a session are not complete. Later lists and watches may end for harmless
// reasons.
func (l *link[T]) unlisted(s *session[T], problem error) {
	l.change(func(st *state[T]) {
		if st.session == s && !st.synced {
			st.problem = problem
		}
	})
}

// synced records that the first lists of a session are complete.
func (l *link[T]) synced(s *session[T]) {
	l.change(func(st *state[T]) {
		if st.session == s {
			st.synced, st.problem = true, nil
		}
	})
}

// reasonOf maps an error to a Reason.
func reasonOf(err error, otherwise Reason) Reason {
	setup := &setupError{}
	switch {
	case errors.As(err, &setup):
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
