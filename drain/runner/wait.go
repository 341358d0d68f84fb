package runner

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrOutOfTime says that the time for a drain was used up. The drain can be resumed.
var ErrOutOfTime = errors.New("the time for the drain is used up")

const (
	minWaitBackoff = 500 * time.Millisecond
	maxWaitBackoff = 15 * time.Second
)

// waiter drains one Node for a caller without a reconciler: it calls Step when the state changes.
type waiter struct {
	runner   *Runner
	nodes    client.Reader // reads from the API server
	req      Request
	progress func(Result, error) // is called when the result changes, and with an error that is retried

	name     string
	woken    chan struct{}
	readAt   time.Time // when the Node was read
	last     Result
	told     bool
	failures int
}

// wait steps until the drain is Done, ctx ends, or an error that retries do not remove. It always returns the last result. At its end, it
// releases the Node and leaves it cordoned, so that another one resumes the drain.
func (w *waiter) wait(ctx context.Context) (Result, error) {
	w.woken = make(chan struct{}, 1)
	removeSink := w.runner.addSink(&sink{wake: w.wake})
	defer func() {
		removeSink()
		w.runner.Release(w.name)
	}()
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
			if result.Done {
				return result, nil
			}
		}
		if err := w.pause(ctx); err != nil {
			return w.last, err
		}
	}
}

// look reads the Node if necessary and calls Step. It returns Done only for a Node that was read for it.
func (w *waiter) look(ctx context.Context) (Result, error) {
	fresh := w.stale()
	if fresh {
		if err := w.read(ctx); err != nil {
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

// stale reports whether the Node has to be read again: until it shows the cordon, after errors, and once per probe interval.
func (w *waiter) stale() bool {
	node := w.req.Node
	return node == nil || !node.Spec.Unschedulable || w.failures > 0 ||
		w.runner.cfg.Clock.Since(w.readAt) >= probeInterval
}

func (w *waiter) read(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, w.runner.cfg.CallTimeout)
	defer cancel()
	var node corev1.Node
	if err := w.nodes.Get(call, client.ObjectKey{Name: w.name}, &node); err != nil {
		return w.failed(fmt.Errorf("read node: %w", err))
	}
	if w.req.Node != nil && w.req.Node.UID != node.UID {
		return w.failed(errNodeReplaced)
	}
	w.req.Node, w.readAt = &node, w.runner.cfg.Clock.Now()
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

// pause waits until the next look.
func (w *waiter) pause(ctx context.Context) error {
	rest := w.last.RequeueAfter
	switch {
	case w.failures > 0:
		rest = min(maxWaitBackoff, minWaitBackoff<<min(w.failures-1, 10))
	case !w.req.Node.Spec.Unschedulable:
		rest = min(rest, w.runner.cfg.Debounce) // the cordon was sent: read whether the Node shows it
	}
	timer := w.runner.cfg.Clock.NewTimer(max(rest, time.Millisecond))
	defer timer.Stop()
	woken := w.woken
	if w.failures > 0 {
		woken = nil // changes of Pods do not shorten the pause after an error
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

// over returns why the wait has to end: the context has ended, perhaps because the time is used up.
func (w *waiter) over(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return w.failed(context.Cause(ctx))
}

func (w *waiter) failed(err error) error { return fmt.Errorf("drain node %s: %w", w.name, err) }

func (w *waiter) tell(result Result, err error) {
	before, after := w.last, result
	before.RequeueAfter, after.RequeueAfter = 0, 0
	w.last = result
	if err == nil && w.told && reflect.DeepEqual(before, after) {
		return
	}
	w.told = true
	w.progress(result, err)
}

// isFinal reports that retries do not remove an error.
func isFinal(err error) bool {
	return errors.Is(err, errNodeReplaced) || errors.Is(err, errStopped) || errors.Is(err, errInvalidRequest) ||
		apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
