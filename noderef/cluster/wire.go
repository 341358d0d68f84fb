package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/utils/clock"
)

// wire sends the requests of one connection. It has its own TCP connections, which it can close, and records every sign of life and every
// failure. It is safe for concurrent use.
type wire struct {
	clock    clock.WithDelayedExecution
	patience time.Duration

	conns   *connrotation.ConnectionTracker
	life    context.Context //nolint:containedctx // ends with the connection
	wake    func()          // wakes the link; must not block
	current atomic.Pointer[http.RoundTripper]

	seen     atomic.Int64 // the last sign of life, in nanoseconds since 1970; 0 means never
	troubled atomic.Bool  // a request failed, or was not answered, since the last probe
}

// transportFor returns a transport with the credentials of a configuration.
func (w *wire) transportFor(config *rest.Config) (http.RoundTripper, error) {
	config = rest.CopyConfig(config)
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	config.Dial = w.dialWith(config.Dial)
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // as client-go does; with a function, its global cache of transports is not used
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalidKubeconfig, err)
	}
	return transport, nil
}

func (w *wire) dialWith(dial connrotation.DialFunc) connrotation.DialFunc {
	dialer := connrotation.NewDialerWithTracker(dial, w.conns)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil && w.life.Err() != nil { // the others may have been closed while this one was dialled
			return nil, errors.Join(errClosed, conn.Close())
		}
		return conn, err
	}
}

func (w *wire) markSeen() { w.seen.Store(w.clock.Now().UnixNano()) }

// lastSeen returns the time of the last sign of life.
func (w *wire) lastSeen() time.Time { return time.Unix(0, w.seen.Load()) }

// trouble records a failure that the server or the network may have caused, and wakes the link. It neither blocks nor reads the clock,
// because timers call it.
func (w *wire) trouble() {
	w.troubled.Store(true)
	w.wake()
}
