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

// hurry is for how many seconds a watch runs whose bookmark is waited for. It comes two seconds before the end.
const hurry = "5"

// door is an http.RoundTripper that leads through the gate of a wire.
type door struct {
	wire    *wire
	base    http.RoundTripper
	wait    bool          // while the gate is closed, for caches
	timeout time.Duration // of what is no watch; of caches, of the time in which nothing comes
}

// RoundTrip implements http.RoundTripper.
func (d *door) RoundTrip(request *http.Request) (*http.Response, error) {
	epoch, err := d.wire.gate.enter(request.Context(), d.wait)
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper has to
		}
		return nil, err
	}
	x := newExchange(epoch, d, request)
	request = request.WithContext(x.ctx)
	if d.wait && d.wire.hurried.Load() {
		request = soonOver(request)
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
		d.wire.heard()
	}
	a := reply{status: response.StatusCode, path: request.URL.Path, mediaType: response.Header.Get("Content-Type")}
	if absentElsewhere(a) { // unknown is not absent
		_ = response.Body.Close()
		x.finish()
		return nil, &answerError{a}
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		x.release() // the body is the connection now, in both directions, and ends as its user wants
		return response, nil
	}
	x.body = response.Body
	response.Body = x
	return response, nil
}

// exchange is one request under way, and the body of its response. It ends with the body, the caller's context, the epoch of
// the gate, or its timeout.
type exchange struct {
	wire   *wire
	caller context.Context //nolint:containedctx // that of the request
	epoch  context.Context //nolint:containedctx // that of the gate
	ctx    context.Context //nolint:containedctx // of both
	cancel context.CancelCauseFunc
	watch  bool
	body   io.ReadCloser

	unanswered, deadline clock.Timer   // deadline is nil for a watch
	silence              time.Duration // after which a cache gives up what is no watch; zero for callers
	detach               func() bool
	once                 sync.Once
}

// timeoutError ends an exchange. It matches context.DeadlineExceeded.
type timeoutError time.Duration

func (e timeoutError) Error() string { return "no answer within " + time.Duration(e).String() }

func (e timeoutError) Unwrap() error { return context.DeadlineExceeded }

func newExchange(epoch context.Context, d *door, request *http.Request) *exchange {
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

// soonOver returns a watch that is to end in a few seconds, in place of one that goes on from a resource version. API servers send a
// bookmark before the end of a watch, and otherwise about every minute.
func soonOver(request *http.Request) *http.Request {
	query := request.URL.Query()
	if !isWatch(request) || query.Get("resourceVersion") == "" || query.Get("sendInitialEvents") != "" {
		return request
	}
	query.Set("timeoutSeconds", hurry)
	short, to := request.WithContext(request.Context()), *request.URL
	to.RawQuery = query.Encode()
	short.URL = &to
	return short
}

func isWatch(request *http.Request) bool {
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}

// Read implements io.Reader for the body. A watch that breaks ends like one that has run its time, because the reflector
// then goes on where it was instead of listing everything again.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.body.Read(p)
	if n > 0 {
		x.wire.heard()
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

// explain says who ended the exchange, and reports what may be the server's fault.
func (x *exchange) explain(err error) error {
	switch {
	case x.epoch.Err() != nil:
		return whyEnded(x.epoch)
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

// release lets go of everything but the exchange itself.
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
