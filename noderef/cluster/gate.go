package cluster

import (
	"context"
	"errors"
	"sync"
)

// gate lets the requests of one connection pass, or not. While it is closed, requests of callers fail at once and
// requests of caches wait, so that only the probe reaches a server that does not answer. It is closed at first, and
// permanently when its context has ended. It is safe for concurrent use.
type gate struct {
	life context.Context //nolint:containedctx // the life of the connection; each request has a context of its own

	mu     sync.Mutex
	why    error                   // nil while the gate is open
	opened chan struct{}           // closed when the gate opens
	epoch  context.Context         //nolint:containedctx // from one opening to the next closing
	end    context.CancelCauseFunc // ends the epoch
}

func newGate(life context.Context, why error) *gate {
	return &gate{life: life, why: why, opened: make(chan struct{})}
}

// open lets requests pass, including those that wait.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == nil {
		return
	}
	g.why = nil
	g.epoch, g.end = context.WithCancelCause(g.life)
	close(g.opened)
}

// close stops new requests and cancels those in flight, with why as the cause.
func (g *gate) close(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == nil {
		g.end(why)
		g.opened = make(chan struct{})
	}
	g.why = why
}

// enter returns a context that ends when the gate closes. With wait it waits until the gate is open, or ctx or the
// connection ends; otherwise it returns why the gate is closed.
func (g *gate) enter(ctx context.Context, wait bool) (context.Context, error) {
	for {
		if g.life.Err() != nil {
			return nil, endCause(g.life)
		}
		g.mu.Lock()
		epoch, why, opened := g.epoch, g.why, g.opened
		g.mu.Unlock()
		if why == nil {
			return epoch, nil
		}
		if !wait {
			return nil, why
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-g.life.Done():
		}
	}
}

// endCause returns why a connection, or an epoch of its gate, ended, as callers see it.
func endCause(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrNotConnected) {
		return cause
	}
	return errClosed
}
