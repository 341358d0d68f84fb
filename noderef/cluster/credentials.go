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

// entrance leads into a wire, with credentials that can be exchanged. Requests under way keep theirs.
type entrance struct {
	current atomic.Pointer[http.RoundTripper]
}

// RoundTrip implements http.RoundTripper.
func (e *entrance) RoundTrip(request *http.Request) (*http.Response, error) {
	return (*e.current.Load()).RoundTrip(request)
}

// credentials are what a session shows its API server: the headers of its requests, and the certificate of its TCP connections.
type credentials struct {
	version         string
	config          *rest.Config // as the Access gave it
	transport       *http.Transport
	prober          *prober
	callers, caches http.RoundTripper
}

// credentialsOf makes the ways into the wire of a session with the credentials of a target.
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
	if c.prober, err = newProber(s.wire, base, config, o.ProbePath, o.ProbeTimeout); err != nil {
		return nil, err
	}
	// Caches wait while the server is lost, as is right for informers; callers fail.
	if c.callers, err = rest.HTTPWrappersForConfig(config, &door{wire: s.wire, base: base, timeout: o.Timeout}); err != nil {
		return nil, err
	}
	c.caches, err = rest.HTTPWrappersForConfig(config, &door{wire: s.wire, base: base, wait: true, timeout: listSilence})
	return c, err
}

// show has the requests of a session that come from now on go out with other credentials.
func (s *session[T]) show(c *credentials) {
	old := s.shown
	s.shown = c
	s.callers.current.Store(&c.callers)
	s.caches.current.Store(&c.caches)
	s.wire.transport.Store(c.transport)
	if old != nil && old.transport != nil && old.transport != c.transport {
		old.transport.CloseIdleConnections() // the others end with their last watch
	}
}

// exchange shows the server other credentials on the connection there is, if nothing else is new about the target: cache and Value stay,
// and no Machine is woken. Credentials that are refused do not take the place of those that work.
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
		l.changed = true // until they are accepted
		l.failed(reasonOf(err, ReasonUnreachable), err)
	case l.isLost():
		s.show(c)
		l.rejoin(ctx)
	default:
		s.show(c)
		l.resume()
		l.log.V(1).Info("the credentials were exchanged")
		l.report(s, nil)
	}
	return true
}

// onlyCredentials reports whether two configurations lead to the same server on the same way, so that they can differ in a token, a
// password or a client certificate alone. What cannot be compared, such as a plugin, is not the same.
func onlyCredentials(before, after *rest.Config) bool {
	a, b := withoutCredentials(before), withoutCredentials(after)
	return a != nil && b != nil && reflect.DeepEqual(a, b) && proxyOf(before) == proxyOf(after)
}

// withoutCredentials returns what can be compared of a configuration; nil if that is not enough.
func withoutCredentials(c *rest.Config) *rest.Config {
	if c.Transport != nil || c.WrapTransport != nil || c.Dial != nil || c.ExecProvider != nil || c.AuthProvider != nil {
		return nil
	}
	c = rest.CopyConfig(c)
	c.BearerToken, c.BearerTokenFile, c.Username, c.Password = "", "", "", ""
	c.CertData, c.KeyData, c.CertFile, c.KeyFile = nil, nil, "", ""
	c.Proxy = nil
	c.QPS, c.Burst, c.RateLimiter, c.Timeout, c.UserAgent = 0, 0, nil, 0, "" // those of the Options count
	return c
}

// proxyOf is the proxy on the way to the server; empty for none, or that of the environment.
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

// sameCertificate reports whether two configurations show the same client certificate. That of a file may be another one each time.
func sameCertificate(a, b *rest.Config) bool {
	return bytes.Equal(a.CertData, b.CertData) && bytes.Equal(a.KeyData, b.KeyData) &&
		a.CertFile == "" && b.CertFile == "" && a.KeyFile == "" && b.KeyFile == ""
}
