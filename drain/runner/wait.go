package runner

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// ErrOutOfTime says that the time for a drain was used up before its end. The drain can be resumed.
var ErrOutOfTime = errors.New("the time for the drain is used up")

const (
	minWaitBackoff = 500 * time.Millisecond
	maxWaitBackoff = 15 * time.Second
)

// WaitOptions say how [Runner.Wait] looks at a Node.
type WaitOptions struct {
	// Node reads the Node from the API server, not from a cache that may be behind. Required.
	Node func(ctx context.Context) (*corev1.Node, error)
	// Timeout is how long to wait; 0 means until ctx ends.
	Timeout time.Duration
	// Progress is told what Step says whenever that changes, and an error that is going to be tried again; the result is the
	// last one then. It is called from the goroutine of Wait and must not block. May be nil.
	Progress func(Result, error)
}

// Wait drains a Node for a caller that has no reconciler: it calls [Runner.Step] whenever there is something new, and returns
// when the drain is Done or Abandoned, when the time is used up ([ErrOutOfTime]), when ctx ends, or at an error that no
// patience mends: the Node is gone or replaced, access is refused, the request is invalid, or [ErrStopped]. The result is the
// last one in any case. [Runner.Start] has to run beside it. Request.Node may be nil: the Node is read until its cordon
// shows, before Done is believed, and once per Config.ProbeInterval.
//
// Wait releases the Node at its end and leaves it cordoned, so that the next Wait, or another process, resumes the drain;
// [Runner.Cancel] gives the Node back. Waits for different Nodes may run at the same time and share limits and budgets.
func (r *Runner) Wait(ctx context.Context, req Request, opts WaitOptions) (Result, error) {
	if opts.Node == nil {
		return Result{}, errors.New("wait for the drain of a node: WaitOptions.Node is required")
	}
	w := &waiter{runner: r, req: req, opts: opts}
	if req.Node != nil {
		w.name = req.Node.Name
	}
	return w.wait(ctx)
}

// waiter is one call of Wait.
type waiter struct {
	runner  *Runner
	req     Request
	opts    WaitOptions
	prepare func(*Request) // once, when the Node was read; may be nil

	name       string    // for errors; empty while it is not known
	until      time.Time // zero without a limit
	woken      chan struct{}
	removeSink func()    // nil before the Node was read
	readAt     time.Time // when the Node was read
	last       Result
	told       bool
	failures   int
}

// wait bounds everything that run does, the calls to the API server included.
func (w *waiter) wait(ctx context.Context) (Result, error) {
	w.woken = make(chan struct{}, 1)
	if w.opts.Timeout > 0 {
		w.until = w.runner.cfg.Clock.Now().Add(w.opts.Timeout)
		var end func()
		ctx, end = limited(ctx, w.runner.cfg.Clock, w.opts.Timeout)
		defer end()
	}
	defer func() {
		if w.removeSink != nil {
			w.removeSink()
			w.runner.Release(w.name)
		}
	}()
	return w.run(ctx)
}

// limited returns a context that ends with ErrOutOfTime after the timeout, by the Runner's clock.
func limited(ctx context.Context, clock clock.Clock, timeout time.Duration) (limited context.Context, end func()) {
	limited, cancel := context.WithCancelCause(ctx)
	timer := clock.NewTimer(timeout)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(ErrOutOfTime)
		case <-limited.Done():
		}
	})
	return limited, func() {
		cancel(nil)
		watching.Wait()
	}
}

func (w *waiter) run(ctx context.Context) (Result, error) {
	for {
		result, err := w.look(ctx)
		switch {
		case err != nil && w.over(ctx) != nil:
			return w.last, w.over(ctx)
		case err != nil && isFinal(err):
			return w.last, err
		case err != nil:
			w.failures++
			w.tell(w.last, err)
		default:
			w.failures = 0
			w.tell(result, nil)
			if result.Done || result.Abandoned {
				return result, nil
			}
		}
		if err := w.pause(ctx); err != nil {
			return w.last, err
		}
	}
}

// look reads the Node if need be and steps. Done is only believed of a Node that was read for it.
func (w *waiter) look(ctx context.Context) (Result, error) {
	fresh := w.stale()
	if fresh {
		if err := w.read(ctx); err != nil {
			return Result{}, err
		}
		if err := w.over(ctx); err != nil { // Prepare took its time
			return Result{}, err
		}
	}
	result, err := w.runner.Step(ctx, w.req)
	if err != nil || !result.Done || fresh {
		return result, err
	}
	if err := w.read(ctx); err != nil {
		return Result{}, err
	}
	return w.runner.Step(ctx, w.req)
}

// stale says whether the Node has to be read again: until its cordon is seen, after errors, and once per probe interval.
func (w *waiter) stale() bool {
	node := w.req.Node
	return node == nil || !node.Spec.Unschedulable || w.failures > 0 ||
		w.runner.cfg.Clock.Since(w.readAt) >= w.runner.cfg.ProbeInterval
}

func (w *waiter) read(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, w.runner.cfg.CallTimeout)
	defer cancel()
	node, err := w.opts.Node(call)
	if err != nil {
		return w.failed(fmt.Errorf("read node: %w", err))
	}
	if w.req.Node != nil && w.req.Node.UID != node.UID {
		return w.failed(ErrNodeReplaced)
	}
	w.req.Node, w.readAt = node, w.runner.cfg.Clock.Now()
	if w.removeSink == nil {
		w.name = node.Name // set for good, before the sink is added
		w.removeSink = w.runner.addSink(&sink{wake: w.wake})
		if w.prepare != nil {
			w.prepare(&w.req)
		}
	}
	return nil
}

func (w *waiter) wake(node string, _ types.NamespacedName) {
	if node != w.name {
		return
	}
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// pause waits until there is a reason to look again.
func (w *waiter) pause(ctx context.Context) error {
	rest := w.last.RequeueAfter
	switch {
	case w.failures > 0:
		rest = min(maxWaitBackoff, minWaitBackoff<<min(w.failures-1, 10))
	case !w.req.Node.Spec.Unschedulable:
		rest = min(rest, w.runner.cfg.Debounce) // the cordon was sent: look whether it is there
	}
	timer := w.runner.cfg.Clock.NewTimer(max(rest, time.Millisecond))
	defer timer.Stop()
	woken := w.woken
	if w.failures > 0 {
		woken = nil // errors are not tried faster because pods change
	}
	select {
	case <-timer.C():
		return nil
	case <-woken:
	case <-ctx.Done():
		return w.over(ctx)
	}
	debounce := w.runner.cfg.Clock.NewTimer(w.runner.cfg.Debounce)
	defer debounce.Stop()
	select {
	case <-debounce.C():
	case <-timer.C():
	case <-ctx.Done():
		return w.over(ctx)
	}
	return nil
}

// over says why no more can be done: the context has ended, or the time is used up.
func (w *waiter) over(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return w.failed(context.Cause(ctx))
	case !w.until.IsZero() && !w.runner.cfg.Clock.Now().Before(w.until):
		return w.failed(ErrOutOfTime)
	default:
		return nil
	}
}

func (w *waiter) failed(err error) error {
	if w.name == "" {
		return fmt.Errorf("drain node: %w", err)
	}
	return fmt.Errorf("drain node %s: %w", w.name, err)
}

func (w *waiter) tell(result Result, err error) {
	before, after := w.last, result
	before.RequeueAfter, after.RequeueAfter = 0, 0
	w.last = result
	if w.opts.Progress == nil || err == nil && w.told && reflect.DeepEqual(before, after) {
		return
	}
	w.told = true
	w.opts.Progress(result, err)
}

// isFinal says that an error stays until something else changes than the cluster's state.
func isFinal(err error) bool {
	return errors.Is(err, ErrNodeReplaced) || errors.Is(err, ErrStopped) || errors.Is(err, errInvalidRequest) ||
		apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
