package cluster

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
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
	transport       *http.Transport
	prober          *prober
	callers, caches http.RoundTripper
}

// credentialsOf builds the transports of a session with the credentials of a target.
func (l *link[T]) credentialsOf(s *session[T], target Target) (*credentials, error) {
	o := &l.clusters.options
	c := &credentials{version: target.Version, config: rest.CopyConfig(target.Config)}
	config := l.ownConfig(target)
	base := config.Transport
	if base == nil {
		var err error
		if c.transport, err = s.wire.transportFor(config, s.shown); err != nil {
			return nil, err
		}
		base = c.transport
	}
	var err error
	if c.prober, err = newProber(s.wire, base, config, o.ProbePath, o.probeTimeout); err != nil {
		return nil, err
	}
	// While the server is lost, requests of informers wait and requests of callers fail.
	if c.callers, err = rest.HTTPWrappersForConfig(config, &gatedTransport{wire: s.wire, base: base, timeout: o.Timeout}); err != nil {
		return nil, err
	}
	c.caches, err = rest.HTTPWrappersForConfig(config, &gatedTransport{wire: s.wire, base: base, wait: true, timeout: listSilence})
	return c, err
}

// useCredentials makes later requests of the session use these credentials.
func (s *session[T]) useCredentials(c *credentials) {
	old := s.shown
	s.shown = c
	s.callers.current.Store(&c.callers)
	s.caches.current.Store(&c.caches)
	s.wire.transport.Store(c.transport)
	if old != nil && old.transport != nil && old.transport != c.transport {
		old.transport.CloseIdleConnections() // connections in use end with their last watch
	}
}

// exchange replaces the credentials of the current connection, if nothing else of the target changed: cache and Value
// stay, and no Machine is woken. Refused credentials do not replace working ones.
func (l *link[T]) exchange(ctx context.Context, s *session[T], target Target) (done bool) {
	if s.wire == nil || target.Config == nil || !onlyCredentials(s.shown.config, target.Config) {
		return false
	}
	c, err := l.credentialsOf(s, target)
	if err == nil && !l.isLost() {
		err = c.prober.probe(ctx)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.changed = true // until the credentials are accepted
		l.failed(reasonOf(err, ReasonUnreachable), err)
	case l.isLost():
		s.useCredentials(c)
		l.rejoin(ctx)
	default:
		s.useCredentials(c)
		l.resume()
		l.log.V(1).Info("the credentials were exchanged")
		l.report(s, nil)
	}
	return true
}

// onlyCredentials reports whether two configurations differ at most in a token, a password or a client certificate, so
// that they lead to the same server. What cannot be compared, such as a plugin, counts as different.
func onlyCredentials(before, after *rest.Config) bool {
	a, b := withoutCredentials(before), withoutCredentials(after)
	return a != nil && b != nil && reflect.DeepEqual(a, b) && proxyOf(before) == proxyOf(after)
}

// withoutCredentials returns the comparable part of a configuration without credentials, or nil if a part cannot be
// compared.
func withoutCredentials(c *rest.Config) *rest.Config {
	if c.Transport != nil || c.WrapTransport != nil || c.Dial != nil || c.ExecProvider != nil || c.AuthProvider != nil {
		return nil
	}
	c = rest.CopyConfig(c)
	c.BearerToken, c.BearerTokenFile, c.Username, c.Password = "", "", "", ""
	c.CertData, c.KeyData, c.CertFile, c.KeyFile = nil, nil, "", ""
	c.Proxy = nil
	c.QPS, c.Burst, c.RateLimiter, c.Timeout, c.UserAgent = 0, 0, nil, 0, "" // the Options set these
	return c
}

// proxyOf returns the proxy of a configuration; empty for none, or for that of the environment.
func proxyOf(c *rest.Config) string {
	if c.Proxy == nil {
		return ""
	}
	server, err := url.Parse(c.Host)
	if err != nil {
		return ""
	}
	proxy, err := c.Proxy(&http.Request{URL: server})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.String()
}

// sameCertificate reports whether two configurations use the same client certificate. The content of a certificate file
// may change, so files are never the same.
func sameCertificate(a, b *rest.Config) bool {
	return bytes.Equal(a.CertData, b.CertData) && bytes.Equal(a.KeyData, b.KeyData) &&
		a.CertFile == "" && b.CertFile == "" && a.KeyFile == "" && b.KeyFile == ""
}
