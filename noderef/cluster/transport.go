package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// silence is how long a list or a watch of a cache may have no data before it is restarted. A watch receives a bookmark about every minute,
// unless nothing has happened since it started, and kubelets report at least every five minutes. A server or a proxy may lose a request,
// and a server that was restored from a backup sends nothing on a watch from a resource version in its future.
const silence = 6 * time.Minute

// ownTransport is an http.RoundTripper that sends requests over a wire.
type ownTransport struct {
	wire *wire
	// limit is the timeout of a request that is not a watch; for caches, of the time without data.
	limit  time.Duration
	caches bool
}

// RoundTrip implements http.RoundTripper.
func (t *ownTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.wire.life.Err() != nil {
		return nil, errClosed // its body is in memory
	}
	x := t.newExchange(request)
	unanswered := t.wire.clock.AfterFunc(t.wire.patience, t.wire.trouble)
	response, err := (*t.wire.current.Load()).RoundTrip(request.WithContext(x.ctx))
	unanswered.Stop()
	if err != nil {
		defer x.end()
		return nil, x.explain(err)
	}
	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusUnauthorized {
		t.wire.trouble()
	} else {
		t.wire.markSeen()
	}
	x.ReadCloser, response.Body = response.Body, x
	return response, nil
}

// exchange is one request in flight, and the body of its response. It ends with the body, the caller's context, the
// connection, or its limit.
type exchange struct {
	io.ReadCloser

	wire   *wire
	caller context.Context //nolint:containedctx // the context of the request
	ctx    context.Context //nolint:containedctx // ends with the request and the connection
	end    func()
	extend func() // extends the timeout of a request of a cache
	watch  bool
}

// errWatch replaces the error of a broken watch, so that the reflector lists again. After an error that looks like the end of a TCP
// connection, it would continue at the last resource version, but the next server may be older.
var errWatch = errors.New("the watch was interrupted, or had no data for too long")

// timeoutError ends an exchange. It matches context.DeadlineExceeded.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return "the API server does not answer in time (" + time.Duration(e).String() + ")"
}

func (e timeoutError) Unwrap() error { return context.DeadlineExceeded }

func (t *ownTransport) newExchange(request *http.Request) *exchange {
	x := &exchange{wire: t.wire, caller: request.Context(), extend: func() {}}
	ctx, cancel := context.WithCancelCause(request.Context())
	detach := context.AfterFunc(t.wire.life, func() { cancel(errClosed) })
	x.ctx, x.end = ctx, func() {
		detach()
		cancel(nil)
	}
	if x.watch, _ = strconv.ParseBool(request.URL.Query().Get("watch")); x.watch && !t.caches {
		return x
	}
	deadline := t.wire.clock.AfterFunc(t.limit, func() { cancel(timeoutError(t.limit)) })
	context.AfterFunc(ctx, func() { deadline.Stop() })
	if t.caches {
		x.extend = func() { deadline.Reset(t.limit) }
	}
	return x
}

// Read implements io.Reader for the body.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.ReadCloser.Read(p)
	if n > 0 {
		x.wire.markSeen()
		x.extend()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = x.explain(err)
		if x.watch {
			err = errWatch
		}
	}
	return n, err
}

// Close implements io.Closer for the body.
func (x *exchange) Close() error {
	x.end()
	return x.ReadCloser.Close()
}

// explain returns why the exchange ended, and reports trouble if the server may be the cause.
func (x *exchange) explain(err error) error {
	switch {
	case x.wire.life.Err() != nil:
		return errClosed
	case x.caller.Err() != nil:
		return err
	case x.ctx.Err() != nil:
		err = context.Cause(x.ctx)
	}
	x.wire.trouble()
	return err
}
