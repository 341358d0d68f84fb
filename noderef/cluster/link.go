package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// link maintains the connection to one cluster while it is used. One goroutine does the work; other goroutines only
// read.
type link[T any] struct {
	clusters *Clusters[T]
	key      types.NamespacedName
	log      logr.Logger
	wakeups  chan struct{}

	// Used only by the goroutine.
	backoff  *backoff
	retryAt  time.Time
	changed  bool      // the target must be read again
	lookedAt time.Time // when the target was last read

	cancel context.CancelFunc // guarded by the mu of Clusters; nil before launch

	mu         sync.Mutex
	state      state[T]
	asked      time.Time
	holds      int
	targetNews bool // the notifier reported a change of the target
}

func newLink[T any](c *Clusters[T], key types.NamespacedName) *link[T] {
	l := &link[T]{
		clusters: c, key: key, wakeups: make(chan struct{}, 1),
		log:     c.options.Logger.WithValues("cluster", key.String()),
		backoff: newBackoff(c.options.Backoff, c.options.Jitter),
	}
	now := c.options.Clock.Now()
	l.asked = now
	l.state = state[T]{reason: ReasonConnecting, since: now}
	l.state.err = &NotConnectedError{Cluster: key, Reason: ReasonConnecting}
	return l
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
		if next == pause {
			l.sleep(ctx, wake)
			continue
		}
		if next == retire && l.clusters.retire(l) {
			l.log.V(1).Info("the cluster is no longer used: disconnecting")
			return
		}
		l.act(ctx, next)
	}
}

// sleep waits until a time (zero is for ever), or until wake is called.
func (l *link[T]) sleep(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := l.clusters.options.Clock.NewTimer(until.Sub(l.clusters.options.Clock.Now()))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-l.wakeups:
	}
}

func (l *link[T]) facts() facts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.targetNews {
		l.targetNews, l.changed, l.retryAt = false, true, time.Time{}
		l.backoff.reset()
	}
	f := facts{
		Now: l.clusters.options.Clock.Now(), Asked: l.asked, Held: l.holds > 0,
		Changed: l.changed, RetryAt: l.retryAt, Seen: l.state.lastSeen(),
	}
	s := l.state.session
	switch {
	case s == nil:
		f.Phase = disconnected
	case l.state.reason == ReasonNone:
		f.Phase = connected
	default:
		f.Phase = lost
	}
	if s != nil {
		f.Foreign, f.Probed = s.wire == nil, s.probed
		f.Troubled = s.wire != nil && s.wire.troubled.Load() != nil
		if len(s.behind) > 0 {
			f.CatchUp = s.checkedAt.Add(probeGap)
		}
		if f.Foreign && !l.clusters.notified { // its owner may have replaced it
			f.LookAt = l.lookedAt.Add(recheckTarget)
		}
	}
	return f
}

func (l *link[T]) act(ctx context.Context, next action) {
	switch next {
	case connect:
		l.changed = false
		if target, ok := l.target(ctx); ok {
			l.connect(ctx, target)
		}
	case replace:
		l.replace(ctx)
	case rejoin:
		l.rejoin(ctx)
	case examine:
		l.examine(ctx)
	case catchUp:
		l.catchUp(ctx)
	case pause, retire:
	}
}

// target calls the Access. When it fails, a connection that works is kept; one that does not work is dropped.
func (l *link[T]) target(ctx context.Context) (Target, bool) {
	o := &l.clusters.options
	l.lookedAt = o.Clock.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := o.Clock.AfterFunc(o.connectTimeout, func() { cancel(timeoutError(o.connectTimeout)) })
	defer timer.Stop()
	target, err := o.Access.Target(ctx, l.key)
	if err == nil {
		return target, true
	}
	if errors.Is(err, ErrNoKubeconfig) {
		l.drop()
	}
	l.failed(reasonOf(err, ReasonKubeconfigUnread), err)
	return Target{}, false
}

// connect creates a connection and makes it the current one.
func (l *link[T]) connect(ctx context.Context, target Target) {
	s, err := l.open(ctx, target)
	if ctx.Err() != nil {
		if s != nil {
			s.close()
		}
		return
	}
	if err != nil {
		l.failed(reasonOf(err, ReasonUnreachable), err)
		return
	}
	l.adopt(s)
}

// replace reads the target again and changes the connection if the version differs. While the old connection works, the
// new one is created beside it, so that a rotation causes no disconnection.
func (l *link[T]) replace(ctx context.Context) {
	target, ok := l.target(ctx)
	s := l.current()
	switch {
	case s == nil:
		return
	case !ok:
		l.probeWithoutTarget(ctx, s)
		return
	}
	l.changed = false
	if s.reaches(target) {
		if l.isLost() {
			l.rejoin(ctx)
		} else {
			l.report(s, nil)
		}
		return
	}
	if l.exchange(ctx, s, target) {
		return
	}
	if l.isLost() {
		l.drop()
	} else {
		l.changed = true // until the new connection is ready
	}
	l.connect(ctx, target)
}

// examine checks whether a connection that was silent or troubled still works.
func (l *link[T]) examine(ctx context.Context) {
	s := l.current()
	why := s.wire.takeTrouble()
	if why == nil {
		why = errSilent
	}
	elsewhere := s.wire.broken.Swap(false) || errors.Is(why, errSilent)
	s.probed = l.clusters.options.Clock.Now()
	closed, err := l.check(ctx, s)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		if (closed || elsewhere) && s.rewound(ctx) { // another server may have answered
			l.restart()
		} else if closed {
			s.wire.gate.open()
		}
		return
	}
	l.log.V(1).Info("the API server does not serve", "noticed", why.Error())
	if !l.clusters.notified || errors.Is(err, errUnauthorized) {
		l.changed = true
	}
	l.lose(reasonOf(err, ReasonUnreachable), err)
}

// check probes a server in doubt. If the probe fails without an answer, check probes again on a new TCP connection,
// because only the old one may be broken, for example after a failover. Before the second probe it closes the gate, so
// that no other goroutine waits; the gate stays closed.
func (l *link[T]) check(ctx context.Context, s *session[T]) (closed bool, err error) {
	err = s.shown.prober.probe(ctx)
	var answer *answerError
	if err == nil || ctx.Err() != nil || errors.As(err, &answer) {
		return false, err
	}
	s.wire.gate.close(&NotConnectedError{Cluster: l.key, Reason: ReasonUnreachable, Err: err, LastSeen: s.lastSeen()})
	s.wire.closeConns()
	return true, s.shown.prober.probe(ctx)
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
