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
	// listSilence is how long nothing may come of a list of a cache before it is begun anew. As a whole it may take as long as it needs.
	// client-go's reflectors list without a deadline of their own, and a server that is alive may still have lost one request.
	listSilence = 2 * time.Minute
)

// wire is the transport of one connection. It has its own pool of TCP connections, which can be cut, and notes every sign of
// life and every trouble. Safe for concurrent use.
//
// client-go's transports cannot be used: they come from a global cache, so that a rotated Secret would leave its connections
// behind, and two clusters behind one address could share one.
type wire struct {
	wireOptions

	gate      *gate
	transport atomic.Pointer[http.Transport] // nil when the caller's configuration brings a transport
	conns     *connrotation.ConnectionTracker
	life      context.Context //nolint:containedctx // the life of the connection
	poke      func()          // wakes who looks after the connection; must not block

	seen     atomic.Int64 // when something was last heard, in nanoseconds since 1970; 0 is never
	troubled atomic.Pointer[error]
	broken   atomic.Bool // a TCP connection broke since the last check
	hurried  atomic.Bool // caches have to learn soon how far the server is
}

// wireOptions is what all wires of a process have in common.
type wireOptions struct {
	clock                  clock.WithDelayedExecution
	patience               time.Duration
	pingAfter, pingTimeout time.Duration
}

func newWire(life context.Context, o wireOptions, poke func()) *wire {
	return &wire{wireOptions: o, life: life, gate: newGate(life, errClosed), conns: connrotation.NewConnectionTracker(), poke: poke}
}

// transportFor makes a transport for the server and the client certificate of a configuration, or returns that of credentials that were
// shown before if theirs is the same.
func (w *wire) transportFor(config *rest.Config, before *credentials) (*http.Transport, error) {
	if before != nil && sameCertificate(before.config, config) {
		return before.transport, nil
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("%w: TLS: %w", ErrInvalidKubeconfig, err)
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
		if w.life.Err() != nil { // closed while dialling: hangUp may not have seen it
			return nil, errors.Join(errClosed, conn.Close())
		}
		return conn, nil
	}
}

// hangUp closes all TCP connections. Requests that come later dial anew.
func (w *wire) hangUp() {
	w.conns.CloseAll()
	if transport := w.transport.Load(); transport != nil {
		transport.CloseIdleConnections()
	}
}

// heard notes a sign of life.
func (w *wire) heard() { w.seen.Store(w.clock.Now().UnixNano()) }

// lastSeen is when something was last heard; zero if never.
func (w *wire) lastSeen() time.Time {
	if at := w.seen.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// trouble notes that something went wrong that may be the server's or the network's fault, and wakes who looks after it. It
// neither blocks nor reads the clock, for timers call it.
func (w *wire) trouble(err error) {
	w.troubled.Store(&err)
	w.poke()
}

// takeTrouble returns what went wrong since the last call, or nil.
func (w *wire) takeTrouble() error {
	if err := w.troubled.Swap(nil); err != nil {
		return *err
	}
	return nil
}
