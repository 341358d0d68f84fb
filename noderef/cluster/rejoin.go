package cluster

import (
	"context"
	"errors"
	"time"
)

// rejoin probes a lost server.
func (l *link[T]) rejoin(ctx context.Context) {
	s := l.current()
	s.probed = l.clusters.options.Clock.Now()
	err := s.shown.prober.probe(ctx)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		l.found(ctx, s)
	default:
		s.wire.hangUp() // behind a balancer, only a new connection gets to another server
		// Other credentials may help, or another address, and their change may not be reported.
		if !l.clusters.notified || errors.Is(err, ErrUnauthorized) || isCertificate(err) || s.probed.Sub(l.lookedAt) >= hopeless {
			l.changed = true
		}
		l.failed(reasonOf(err, ReasonUnreachable), err)
	}
}

// rejoinUnread probes a lost server whose target cannot be read now: what served before may serve again. The target is still to be
// looked at.
func (l *link[T]) rejoinUnread(ctx context.Context, s *session[T]) {
	if !l.isLost() || s.wire == nil {
		return
	}
	s.probed = l.clusters.options.Clock.Now()
	err := s.shown.prober.probe(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.wire.hangUp()
		l.pauseAfter(ReasonUnreachable) // also when the target is not expected to be read soon: the server may be back before
	default:
		next := l.retryAt
		l.found(ctx, s)
		l.changed, l.retryAt = true, next
	}
}

// found takes up a connection to a server that serves again, or gives it up when its caches would wait for what has been.
func (l *link[T]) found(ctx context.Context, s *session[T]) {
	behind, rewound := s.survey(ctx, s.laggards())
	if rewound {
		l.restart()
		return
	}
	l.regained(s, behind)
}

// catchUp looks whether the cache has read by now what happened during an outage.
func (l *link[T]) catchUp(ctx context.Context) {
	s := l.current()
	behind, rewound := s.survey(ctx, s.behind)
	now := l.clusters.options.Clock.Now()
	switch {
	case ctx.Err() != nil:
	case rewound:
		l.restart()
	case len(behind) > 0 && now.Sub(s.regained) >= overdue:
		s.regained = now // or it would be tried all the time
		l.log.Info("the caches do not catch up with the API server: connecting anew")
		l.changed = true // until there is a new connection, or this one is looked at again
		if target, ok := l.target(ctx); ok {
			l.connect(ctx, target)
		}
	default:
		l.lag(s, behind)
	}
}

// restart gives up a connection whose server has gone back in time, and has a new one made at once.
func (l *link[T]) restart() {
	l.log.Info("the API server has gone back in time, as after a restore from a backup: connecting anew")
	l.retryAt = time.Time{}
	l.drop()
}
