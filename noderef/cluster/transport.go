package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// shortWatchSeconds is the timeout of a watch that is kept short for its bookmark, which comes two seconds before the
// end.
const shortWatchSeconds = "5"

// gatedTransport is an http.RoundTripper that sends requests through the gate of a wire.
type gatedTransport struct {
	wire    *wire
	base    http.RoundTripper
	wait    bool          // wait while the gate is closed (caches)
	timeout time.Duration // of a request that is not a watch; for caches, of the time without any data
}

// RoundTrip implements http.RoundTripper.
func (d *gatedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	epoch, err := d.wire.gate.enter(request.Context(), d.wait)
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // the contract of http.RoundTripper
		}
		return nil, err
	}
	x := newExchange(epoch, d, request)
	request = request.WithContext(x.ctx)
	if d.wait && d.wire.shortWatches.Load() {
		request = shortenWatch(request)
	}
	response, err := d.base.RoundTrip(request)
	x.unanswered.Stop()
	if err != nil {
		err = x.explain(err)
		x.finish()
		return nil, err
	}
	if response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusUnauthorized {
		d.wire.trouble(fmt.Errorf("the API server answers %s", response.Status))
	} else {
		d.wire.markSeen()
	}
	a := reply{status: response.StatusCode, path: request.URL.Path, mediaType: response.Header.Get("Content-Type")}
	if absentElsewhere(a) { // an unknown answer does not mean that the object is absent
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
// epoch of the gate, or its timeout.
type exchange struct {
	wire   *wire
	caller context.Context //nolint:containedctx // that of the request
	epoch  context.Context //nolint:containedctx // that of the gate
	ctx    context.Context //nolint:containedctx // of both
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

func newExchange(epoch context.Context, d *gatedTransport, request *http.Request) *exchange {
	x := &exchange{wire: d.wire, caller: request.Context(), epoch: epoch, watch: isWatch(request)}
	x.ctx, x.cancel = context.WithCancelCause(request.Context())
	x.detach = context.AfterFunc(epoch, func() { x.cancel(context.Cause(epoch)) })
	x.unanswered = d.wire.clock.AfterFunc(d.wire.patience, func() { d.wire.trouble(errUnanswered) })
	if d.wait {
		x.silence = d.timeout
	}
	if !x.watch {
		x.deadline = d.wire.clock.AfterFunc(d.timeout, func() { x.cancel(timeoutError(d.timeout)) })
	}
	return x
}

// shortenWatch returns a watch that ends after a few seconds, if the request is one that continues from a resource
// version. API servers send a bookmark before the end of a watch, and otherwise about once a minute.
func shortenWatch(request *http.Request) *http.Request {
	query := request.URL.Query()
	if !isWatch(request) || query.Get("resourceVersion") == "" || query.Get("sendInitialEvents") != "" {
		return request
	}
	query.Set("timeoutSeconds", shortWatchSeconds)
	short, to := request.WithContext(request.Context()), *request.URL
	to.RawQuery = query.Encode()
	short.URL = &to
	return short
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
	case x.epoch.Err() != nil:
		return endCause(x.epoch)
	case x.caller.Err() != nil:
		return err
	case x.ctx.Err() != nil:
		err = context.Cause(x.ctx)
	default:
		x.wire.broken.Store(true)
	}
	x.wire.trouble(err)
	return err
}

// release stops the timers and detaches the exchange from the gate.
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
