package cluster

import (
	"context"
	"reflect"

	"k8s.io/client-go/rest"
)

// use makes later requests of the session use these credentials. TCP connections of earlier ones end with their last watch.
func (s *session[T]) use(c *credentials) {
	s.shown = c
	s.wire.current.Store(&c.transport)
}

// exchange replaces the credentials of the current connection without replacing cache and Value, so no Machine is enqueued. Rejected
// credentials do not replace working ones.
func (l *link[T]) exchange(ctx context.Context, s *session[T], target Target) error {
	c, err := l.try(ctx, s.wire, target)
	if err != nil {
		return err
	}
	s.use(c)
	if s.confirmOther(ctx) {
		l.disconnect(ReasonConnecting, nil)
		return nil
	}
	l.change(s, func(v *View[T]) { v.Problem = nil })
	return nil
}

// onlyCredentials reports whether two configurations differ at most in a token, a password or a client certificate, so that they refer to
// the same server. Parts that cannot be compared, such as a plugin, count as different.
func onlyCredentials(before, after *rest.Config) bool {
	a, b := withoutCredentials(before), withoutCredentials(after)
	return a != nil && b != nil && reflect.DeepEqual(a, b)
}

// withoutCredentials returns the comparable part of a configuration without credentials, or nil if a part cannot be
// compared.
func withoutCredentials(c *rest.Config) *rest.Config {
	if c.Transport != nil || c.WrapTransport != nil || c.Dial != nil || c.Proxy != nil || c.ExecProvider != nil || c.AuthProvider != nil {
		return nil
	}
	c = rest.CopyConfig(c)
	c.BearerToken, c.BearerTokenFile, c.Username, c.Password = "", "", "", ""
	c.CertData, c.KeyData, c.CertFile, c.KeyFile = nil, nil, "", ""
	c.QPS, c.Burst, c.RateLimiter, c.Timeout, c.UserAgent = 0, 0, nil, 0, "" // the Options set these
	return c
}
