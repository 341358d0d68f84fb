package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ownTransport is an http.RoundTripper that sends requests over a wire.
type ownTransport struct {
	wire    *wire
	base    http.RoundTripper
	caches  bool
	timeout time.Duration // of a request that is not a watch; for caches, of the time without any data
}

// RoundTrip implements http.RoundTripper.
func (d *ownTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if d.wire.life.Err() != nil {
		if request.Body != nil {
			_ = request.Body.Close() // the contract of http.RoundTripper
		}
		return nil, errClosed
	}
	x := newExchange(d, request)
	request = request.WithContext(x.ctx)
	response, err := d.base.RoundTrip(request)
	x.unanswered.Stop()
	if err != nil {
		err = x.explain(err)
		x.finish()
		return nil, err
	}
	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusUnauthorized {
		d.wire.trouble()
	} else {
		d.wire.markSeen()
	}
	a := reply{status: response.StatusCode, path: request.URL.Path, mediaType: response.Header.Get("Content-Type")}
	if a.absentElsewhere() { // an unknown answer does not mean that the object is absent
		_ = response.Body.Close()
		x.finish()
		return nil, &answerError{a}
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		x.release() // the body is now the connection in both directions, and its user ends it
		return response, nil
	}
	x.body = response.Body
	response.Body = x
	return response, nil
}

// exchange is one request in flight, and the body of its response. It ends with the body, the caller's context, the
// connection, or its timeout.
type exchange struct {
	wire   *wire
	caller context.Context //nolint:containedctx // that of the request
	ctx    context.Context //nolint:containedctx // of the request and the connection
	cancel context.CancelCauseFunc
	watch  bool
	body   io.ReadCloser

	unanswered, deadline clock.Timer   // deadline is nil for a watch
	silence              time.Duration // the limit for a cache's request without new data, watches aside; zero for callers
	detach               func() bool
	once                 sync.Once
}

// timeoutError ends an exchange. It matches context.DeadlineExceeded.
type timeoutError time.Duration

func (e timeoutError) Error() string { return "no answer within " + time.Duration(e).String() }

func (e timeoutError) Unwrap() error { return context.DeadlineExceeded }

// withLimit returns a context that ends after a while of a clock, with a timeoutError as its cause.
func withLimit(ctx context.Context, c clock.WithDelayedExecution, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.AfterFunc(limit, func() { cancel(timeoutError(limit)) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

func newExchange(d *ownTransport, request *http.Request) *exchange {
	x := &exchange{wire: d.wire, caller: request.Context(), watch: isWatch(request)}
	x.ctx, x.cancel = context.WithCancelCause(request.Context())
	x.detach = context.AfterFunc(d.wire.life, func() { x.cancel(errClosed) })
	x.unanswered = d.wire.clock.AfterFunc(d.wire.patience, d.wire.trouble)
	if d.caches {
		x.silence = d.timeout
	}
	if !x.watch {
		x.deadline = d.wire.clock.AfterFunc(d.timeout, func() { x.cancel(timeoutError(d.timeout)) })
	}
	return x
}

func isWatch(request *http.Request) bool {
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}

// Read implements io.Reader for the body. A watch that breaks ends as if its timeout had passed, because the reflector
// then continues the watch instead of listing everything again.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.body.Read(p)
	if n > 0 {
		x.wire.markSeen()
		if x.deadline != nil && x.silence > 0 && err == nil {
			x.deadline.Reset(x.silence)
		}
	}
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) {
		err = x.explain(err)
		if x.watch && x.caller.Err() == nil {
			err = io.EOF
		}
	}
	x.finish()
	return n, err
}

// Close implements io.Closer for the body.
func (x *exchange) Close() error {
	x.finish()
	return x.body.Close()
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
	default:
		x.wire.broken.Store(true)
	}
	x.wire.trouble()
	return err
}

// release stops the timers and detaches the exchange from the connection.
func (x *exchange) release() {
	x.unanswered.Stop()
	if x.deadline != nil {
		x.deadline.Stop()
	}
	x.detach()
}

func (x *exchange) finish() {
	x.once.Do(func() {
		x.release()
		x.cancel(nil)
	})
}
