package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// ErrOutOfTime means that the time for a drain is used up. The drain can be resumed.
var ErrOutOfTime = errors.New("the time for the drain is used up")

// DrainOptions configure [Drain]. The zero value evicts by [drain.DefaultRules] without a limit.
type DrainOptions struct {
	// Timeout limits the whole call, including requests without a response; 0 means until ctx ends.
	Timeout time.Duration
	// Rules and Policy are those of every Node's [Request]; nil means the defaults.
	Rules  []drain.Rule
	Policy *drain.Policy
	// Progress is called after each look at a Node, and when its drain ends. Calls do not overlap. May be nil.
	Progress func(NodeResult)
	// Configure changes the parts of the Runner before they are used, for example to wrap the Evictor. May be nil.
	Configure func(*Config)
}

// NodeResult is the state of the drain of one Node of [Drain].
type NodeResult struct {
	Node string
	// Ended: this is the last result of the Node. It is Done, or Err is the error.
	Ended bool
	Result
	// Err is why the Node was not drained or, while Ended is false, an error that is retried.
	Err error
}

// Drain drains Nodes for a program without a manager. It returns when each of them is done or failed, with one result per name in the order
// of the names. The error joins the errors of the Nodes. All Nodes share one [Runner], so limits and budgets apply to all of them together.
//
// When ctx ends or the time is used up ([ErrOutOfTime]), Drain returns soon: requests in flight are ended, Nodes stay cordoned, and the
// next Drain, also by another process, resumes. All goroutines end before Drain returns.
//
// client-go limits a client to 5 requests a second unless restConfig contains another limit. Drain removes that limit on a copy when QPS is
// 0 and RateLimiter is nil, because the Runner has its own limits.
func Drain(ctx context.Context, restConfig *rest.Config, opts DrainOptions, nodes ...string) ([]NodeResult, error) {
	if restConfig == nil {
		return nil, errors.New("drain nodes: the rest config is nil")
	}
	restConfig = rest.CopyConfig(restConfig)
	if restConfig.QPS == 0 && restConfig.RateLimiter == nil {
		restConfig.QPS = -1
	}
	restConfig.UserAgent = cmp.Or(restConfig.UserAgent, rest.DefaultKubernetesUserAgent())
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return nil, fmt.Errorf("drain nodes: %w", err)
	}
	var live client.Reader
	r, err := newOver(restConfig, httpClient, httpClient, func(cfg *Config, c client.Client) {
		if live = c; opts.Configure != nil {
			opts.Configure(cfg)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("drain nodes: %w", err)
	}
	return drainBy(ctx, r, live, opts, nodes)
}

// drainBy drains Nodes with a Runner that it starts. live reads Nodes from the API server.
func drainBy(ctx context.Context, r *Runner, live client.Reader, opts DrainOptions, names []string) ([]NodeResult, error) {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("drain nodes: the name %q is empty or given twice", name)
		}
	}
	if opts.Timeout > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, opts.Timeout, ErrOutOfTime)
		defer end()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel(nil)
	beside.Go(func() { cancel(cmp.Or(r.Start(ctx), errStopped)) })
	d := &drains{runner: r, live: live, opts: opts, of: map[string]*nodeDrain{}}
	for _, name := range names {
		d.of[name] = &nodeDrain{NodeResult: NodeResult{Node: name}, woken: make(chan struct{}, 1)}
	}
	return d.all(ctx, names)
}

// drains is one call of Drain.
type drains struct {
	runner *Runner
	live   client.Reader
	opts   DrainOptions
	of     map[string]*nodeDrain

	mu sync.Mutex // held during Progress
}

// nodeDrain is the drain of one Node. Only its goroutine reads and changes it.
type nodeDrain struct {
	NodeResult // as last reported

	node  *corev1.Node
	woken chan struct{}
}

// all drains the Nodes, each in a goroutine.
func (d *drains) all(ctx context.Context, names []string) ([]NodeResult, error) {
	defer d.runner.addSink(func(node string, _ types.NamespacedName) {
		if n := d.of[node]; n != nil {
			select {
			case n.woken <- struct{}{}:
			default:
			}
		}
	})()
	var running sync.WaitGroup
	for _, name := range names {
		running.Go(func() { d.drain(ctx, d.of[name]) })
	}
	running.Wait()
	results, errs := make([]NodeResult, 0, len(names)), make([]error, 0, len(names))
	for _, name := range names {
		results, errs = append(results, d.of[name].NodeResult), append(errs, d.of[name].Err)
	}
	return results, errors.Join(errs...)
}

// drain steps a Node until its drain has ended. Errors that a retry may resolve are retried after a second.
func (d *drains) drain(ctx context.Context, n *nodeDrain) {
	for {
		result, err := d.look(ctx, n)
		switch {
		case ctx.Err() != nil && !result.Done, errors.Is(err, errStopped):
			<-ctx.Done() // which follows the end of the Runner
			d.end(n, n.Result, fmt.Errorf("drain node %s: %w", n.Node, context.Cause(ctx)))
			return
		case err != nil && isFinal(err):
			d.end(n, n.Result, err)
			return
		case err != nil:
			d.report(n, n.Result, err)
			d.wait(ctx, time.Second, nil) // changes of Pods do not shorten the pause
		case result.Done:
			d.end(n, result, nil)
			return
		default:
			d.report(n, result, nil)
			d.wait(ctx, result.RequeueAfter, n.woken)
		}
	}
}

// wait returns after the given time, or shortly after a wake-up.
func (d *drains) wait(ctx context.Context, rest time.Duration, woken <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-d.runner.cfg.Clock.After(rest):
	case <-woken:
		d.wait(ctx, d.runner.cfg.Debounce, nil)
	}
}

func (d *drains) look(ctx context.Context, n *nodeDrain) (Result, error) {
	if err := d.read(ctx, n); err != nil {
		return Result{}, fmt.Errorf("drain node %s: %w", n.Node, err)
	}
	result, err := d.runner.Step(ctx, Request{Node: n.node, Rules: d.opts.Rules, Policy: d.opts.Policy})
	if !n.node.Spec.Unschedulable {
		result.RequeueAfter = min(result.RequeueAfter, 10*d.runner.cfg.Debounce) // the cordon was sent: read the Node again to confirm it
	}
	return result, err
}

func (d *drains) read(ctx context.Context, n *nodeDrain) error {
	call, cancel := context.WithTimeout(ctx, d.runner.cfg.CallTimeout)
	defer cancel()
	var node corev1.Node
	if err := d.live.Get(call, client.ObjectKey{Name: n.Node}, &node); err != nil {
		return fmt.Errorf("read node: %w", err)
	}
	if n.node != nil && n.node.UID != node.UID {
		return errNodeReplaced
	}
	n.node = &node
	return nil
}

// end reports the last result of a Node, and releases it. The Node stays cordoned, so that another drain can resume.
func (d *drains) end(n *nodeDrain, result Result, err error) {
	n.Ended = true
	d.runner.Release(n.Node)
	d.report(n, result, err)
}

// report stores a result, and passes it to Progress.
func (d *drains) report(n *nodeDrain, result Result, err error) {
	n.Result, n.Err = result, err
	if d.opts.Progress == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opts.Progress(n.NodeResult)
}

// isFinal reports whether retries cannot resolve an error.
func isFinal(err error) bool {
	return errors.Is(err, errNodeReplaced) || errors.Is(err, errInvalidRequest) ||
		apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}
