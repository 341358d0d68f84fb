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
		l.reconnected(ctx, s)
	default:
		s.wire.closeConns() // behind a load balancer, only a new connection reaches another server
		// The target may have other credentials or another address without a report.
		if !l.clusters.notified || errors.Is(err, errUnauthorized) || isCertificate(err) || s.probed.Sub(l.lookedAt) >= recheckTarget {
			l.changed = true
		}
		l.failed(reasonOf(err, ReasonUnreachable), err)
	}
}

// probeWithoutTarget probes a lost server whose target cannot be read now: the server may answer again with the old
// one. The target is read again later.
func (l *link[T]) probeWithoutTarget(ctx context.Context, s *session[T]) {
	if !l.isLost() || s.wire == nil {
		return
	}
	s.probed = l.clusters.options.Clock.Now()
	err := s.shown.prober.probe(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.wire.closeConns()
		l.pauseAfter(ReasonUnreachable) // not longer, even if the target cannot be read for long: the server may answer earlier
	default:
		next := l.retryAt
		l.reconnected(ctx, s)
		l.changed, l.retryAt = true, next
	}
}

// reconnected resumes the connection to a server that serves again, or drops it if the server has gone back in time.
func (l *link[T]) reconnected(ctx context.Context, s *session[T]) {
	behind, rewound := s.checkProgress(ctx, s.progress())
	if rewound {
		l.restart()
		return
	}
	l.regained(s, behind)
}

// catchUp checks whether the cache has caught up after an outage.
func (l *link[T]) catchUp(ctx context.Context) {
	s := l.current()
	behind, rewound := s.checkProgress(ctx, s.behind)
	now := l.clusters.options.Clock.Now()
	switch {
	case ctx.Err() != nil:
	case rewound:
		l.restart()
	case len(behind) > 0 && now.Sub(s.regained) >= maxCatchUp:
		s.regained = now // or it would retry all the time
		l.log.Info("the caches do not catch up with the API server: reconnecting")
		l.changed = true // until there is a new connection, or this one is checked again
		if target, ok := l.target(ctx); ok {
			l.connect(ctx, target)
		}
	default:
		l.setBehind(s, behind)
	}
}

// restart drops the session of a server that has gone back in time, so that a new connection is created at once.
func (l *link[T]) restart() {
	l.log.Info("the API server is at an older resource version than its caches, as after a restore from a backup: reconnecting")
	l.retryAt = time.Time{}
	l.drop()
}
