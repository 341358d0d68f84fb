package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/clock"
)

const (
	dialTimeout = 10 * time.Second
	// listSilence is how long a list of a cache may bring no data before it is started again. The whole list may take
	// longer. client-go's reflectors list without a deadline of their own, and even a healthy server may lose one
	// request.
	listSilence = 2 * time.Minute
)

// wire is the transport of one connection. It has its own pool of TCP connections, which it can close, and records
// every sign of life and every failure. It is safe for concurrent use.
//
// client-go's transports are not used: they come from a global cache, so that a rotated Secret would leave its
// connections open, and two clusters with one address could share a connection.
type wire struct {
	wireOptions

	conns *connrotation.ConnectionTracker
	life  context.Context //nolint:containedctx // the life of the connection
	wake  func()          // wakes the link; must not block

	seen     atomic.Int64 // the last sign of life, in nanoseconds since 1970; 0 is never
	troubled atomic.Bool  // a request failed, or was not answered, since the last probe
	broken   atomic.Bool  // a TCP connection broke since the last probe
}

// wireOptions are the options that all wires of a process share.
type wireOptions struct {
	clock                  clock.WithDelayedExecution
	patience               time.Duration
	pingAfter, pingTimeout time.Duration
}

func newWire(life context.Context, o wireOptions, wake func()) *wire {
	return &wire{wireOptions: o, life: life, conns: connrotation.NewConnectionTracker(), wake: wake}
}

// transportFor returns a transport for the server and the client certificate of a configuration.
func (w *wire) transportFor(config *rest.Config) (http.RoundTripper, error) {
	if config.Transport != nil {
		return config.Transport, nil
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("%w: TLS: %w", errInvalidKubeconfig, err)
	}
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: w.pingAfter}).DialContext
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment // as client-go does
	}
	return &http.Transport{
		Proxy:               proxy,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		DialContext:         w.dialWith(dial),
		MaxIdleConnsPerHost: 25,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  config.DisableCompression,
		ForceAttemptHTTP2:   len(config.NextProtos) == 0 || slices.Contains(config.NextProtos, "h2"),
		HTTP2:               &http.HTTP2Config{SendPingTimeout: w.pingAfter, PingTimeout: w.pingTimeout},
	}, nil
}

func (w *wire) dialWith(dial connrotation.DialFunc) connrotation.DialFunc {
	dialer := connrotation.NewDialerWithTracker(dial, w.conns)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if w.life.Err() != nil { // closeConns may have run while this connection was dialled
			return nil, errors.Join(errClosed, conn.Close())
		}
		return conn, nil
	}
}

// closeConns closes all TCP connections.
func (w *wire) closeConns() { w.conns.CloseAll() }

// markSeen records a sign of life.
func (w *wire) markSeen() { w.seen.Store(w.clock.Now().UnixNano()) }

// lastSeen returns the time of the last sign of life; zero if there was none.
func (w *wire) lastSeen() time.Time {
	if at := w.seen.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// trouble records a failure that the server or the network may have caused, and wakes the link. It neither blocks nor
// reads the clock, because timers call it.
func (w *wire) trouble() {
	w.troubled.Store(true)
	w.wake()
}
