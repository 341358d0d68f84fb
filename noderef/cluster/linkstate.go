package cluster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// current returns the session, or nil.
func (l *link[T]) current() *session[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.session
}

func (l *link[T]) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.reason != ReasonNone
}

// change updates the state, and wakes the subscribers if they can see a difference.
func (l *link[T]) change(f func(*state[T])) {
	l.mu.Lock()
	before := l.state
	f(&l.state)
	after := &l.state
	if (before.reason == ReasonNone) != (after.reason == ReasonNone) {
		after.since = l.clusters.options.Clock.Now()
	}
	tell := before.reason != after.reason || before.synced != after.synced || before.behind != after.behind ||
		before.session != after.session || (before.problem == nil) != (after.problem == nil)
	l.mu.Unlock()
	if tell {
		l.clusters.tell(l.key)
	}
}

// resume resets the backoff after an attempt has succeeded.
func (l *link[T]) resume() {
	l.changed, l.retryAt = false, time.Time{}
	l.backoff.reset()
}

// adopt makes a new session the current one. The previous one ends in the background.
func (l *link[T]) adopt(s *session[T]) {
	l.resume()
	old := l.current()
	l.log.Info("connected")
	l.change(func(st *state[T]) {
		*st = state[T]{session: s, since: st.since, seen: st.lastSeen(), synced: s.listed.Load()}
	})
	if old != nil && old.giveBack != nil {
		old.replaced = old.cluster != s.cluster
	}
	l.discard(old)
}

// drop ends the current session.
func (l *link[T]) drop() {
	old := l.current()
	if old == nil {
		return
	}
	l.change(func(st *state[T]) {
		*st = state[T]{reason: st.reason, err: st.err, since: st.since, seen: st.lastSeen()}
		if st.reason == ReasonNone {
			st.reason = ReasonConnecting
			st.err = &NotConnectedError{Cluster: l.key, Reason: ReasonConnecting, LastSeen: st.seen}
		}
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

// failed records a failed attempt. A connection that works is kept.
func (l *link[T]) failed(reason Reason, err error) {
	l.pauseAfter(reason)
	if s := l.current(); s != nil && !l.isLost() {
		l.report(s, err)
		return
	}
	l.setReason(reason, err)
}

// lose records that the server of the current session does not serve. Requests in flight end; those of caches wait at
// the gate.
func (l *link[T]) lose(reason Reason, err error) {
	l.backoff.reset()
	l.pauseAfter(reason)
	l.setReason(reason, err)
	l.mu.Lock()
	s, failure := l.state.session, l.state.err
	l.mu.Unlock()
	s.wire.gate.close(failure)
	s.wire.closeConns()
}

// regained records that the server of the current session serves again. behind are the informers that have not caught
// up.
func (l *link[T]) regained(s *session[T], behind []informerProgress) {
	l.resume()
	_ = s.wire.takeTrouble() // it is out of date
	l.log.Info("connected again")
	s.regained = l.clusters.options.Clock.Now()
	l.setBehind(s, behind)
	s.wire.gate.open()
	l.change(func(st *state[T]) { st.reason, st.err = ReasonNone, nil })
}

// setBehind records which informers have not caught up after an outage.
func (l *link[T]) setBehind(s *session[T], behind []informerProgress) {
	s.behind, s.checkedAt = behind, l.clusters.options.Clock.Now()
	s.wire.shortWatches.Store(len(behind) > 0)
	kinds := make([]schema.GroupKind, len(behind))
	for i := range behind {
		kinds[i] = behind[i].kind
	}
	l.change(func(st *state[T]) {
		switch {
		case len(kinds) == 0:
			st.behind = nil
		case st.behind == nil || !slices.Equal(st.behind.kinds, kinds):
			st.behind = &behindError{cluster: l.key, kinds: kinds}
		}
	})
}

func (l *link[T]) pauseAfter(reason Reason) {
	pause := l.backoff.next()
	if l.clusters.notified && (reason == ReasonNoKubeconfig || reason == ReasonKubeconfigRefused) {
		pause = l.backoff.spread(recheckTarget)
	}
	l.retryAt = l.clusters.options.Clock.Now().Add(pause)
}

// setReason records why the cluster is not connected. The error is kept if its text is the same.
func (l *link[T]) setReason(reason Reason, err error) {
	l.change(func(st *state[T]) {
		if st.reason != reason {
			l.log.Info("not connected", "reason", reason.String(), "error", err.Error())
		}
		st.reason, st.problem = reason, nil
		failure := &NotConnectedError{Cluster: l.key, Reason: reason, Err: err, LastSeen: st.lastSeen()}
		if st.err == nil || st.err.Error() != failure.Error() {
			st.err = failure
		}
	})
}

// report records a problem of a connected cluster; nil clears it.
func (l *link[T]) report(s *session[T], problem error) {
	l.change(func(st *state[T]) {
		if st.session == s && st.reason == ReasonNone {
			st.problem = problem
		}
	})
}

// unlisted records why the first lists of a session are not complete. Later lists and watches may end for harmless
// reasons.
func (l *link[T]) unlisted(s *session[T], problem error) {
	l.change(func(st *state[T]) {
		if st.session == s && st.reason == ReasonNone && !st.synced {
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
