package cluster

import (
	"context"
	"net/http"
	"reflect"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// switchableTransport sends requests with the current credentials, which can be replaced. Requests in flight keep
// theirs.
type switchableTransport struct {
	current atomic.Pointer[http.RoundTripper]
}

// RoundTrip implements http.RoundTripper.
func (e *switchableTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return (*e.current.Load()).RoundTrip(request)
}

// credentials are what a session presents to its API server: the headers of its requests, and the certificate of its
// TCP connections.
type credentials struct {
	version         string
	config          *rest.Config // as the Access returned it
	prober          *prober
	callers, caches http.RoundTripper
}

// credentialsOf builds the transports of a session with the credentials of a target.
func (l *link[T]) credentialsOf(s *session[T], target Target) (*credentials, error) {
	o := &l.clusters.options
	c := &credentials{version: target.Version, config: rest.CopyConfig(target.Config)}
	config := l.ownConfig(target)
	base, err := s.wire.transportFor(config)
	if err != nil {
		return nil, err
	}
	if c.prober, err = newProber(s.wire, base, config, o.ProbePath, o.probeTimeout); err != nil {
		return nil, err
	}
	if c.callers, err = rest.HTTPWrappersForConfig(config, &ownTransport{wire: s.wire, base: base, timeout: o.Timeout}); err != nil {
		return nil, err
	}
	c.caches, err = rest.HTTPWrappersForConfig(config, &ownTransport{wire: s.wire, base: base, caches: true, timeout: listSilence})
	return c, err
}

// useCredentials makes later requests of the session use these credentials. TCP connections of earlier ones end with
// their last watch.
func (s *session[T]) useCredentials(c *credentials) {
	s.shown = c
	s.callers.current.Store(&c.callers)
	s.caches.current.Store(&c.caches)
}

// exchange replaces the credentials of the current connection: cache and Value stay, and no Machine is woken. Refused
// credentials do not replace working ones.
func (l *link[T]) exchange(ctx context.Context, s *session[T], target Target) error {
	c, err := l.credentialsOf(s, target)
	if err == nil {
		err = c.prober.probe(ctx)
	}
	if err != nil {
		return err
	}
	s.useCredentials(c)
	l.log.V(1).Info("the credentials were exchanged")
	l.report(s, nil)
	return nil
}

// onlyCredentials reports whether two configurations differ at most in a token, a password or a client certificate, so
// that they lead to the same server. What cannot be compared, such as a plugin, counts as different.
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
