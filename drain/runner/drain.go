package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// ErrOutOfTime says that the time for a drain was used up. The drain can be resumed.
var ErrOutOfTime = errors.New("the time for the drain is used up")

// DrainOptions configure [Drain]. The zero value evicts by [drain.DefaultRules] without a limit.
type DrainOptions struct {
	// Timeout is how long the whole call may take, including requests without an answer; 0 means until ctx ends.
	Timeout time.Duration
	// Rules and Policy are those of every Node's [Request]; nil means the defaults.
	Rules  []drain.Rule
	Policy *drain.Policy
	// Progress is called when the state of a Node changes, and when its drain ends. Calls do not overlap. May be nil.
	Progress func(NodeResult)
	// Configure changes the parts of the Runner before they are used, for example to wrap the Evictor. May be nil.
	Configure func(*Config)
}

// NodeResult is the state of the drain of one Node of [Drain].
type NodeResult struct {
	Node string
	// Ended: this is the last result of the Node. It is Done, or ended by Err.
	Ended bool
	Result
	// Err is why the Node was not drained or, while Ended is false, an error that is retried.
	Err error
}

// Drain drains Nodes for a program without a manager. It returns when each of them is done or failed, with one result per name
// in the order of the names. The error joins the errors of the Nodes. All Nodes share one [Runner], so limits and budgets apply to
// all of them together.
//
// When ctx ends or the time is used up ([ErrOutOfTime]), Drain returns soon: requests in flight are ended, Nodes stay cordoned, and the
// next Drain, also by another process, resumes. All goroutines end before Drain returns.
//
// client-go limits a client to 5 requests a second unless restConfig contains another limit. Drain removes that limit on a copy when
// QPS is 0 and RateLimiter is nil, because the Runner has limits of its own.
func Drain(ctx context.Context, restConfig *rest.Config, opts DrainOptions, nodes ...string) ([]NodeResult, error) {
	var live client.Reader
	r, err := standalone(restConfig, func(cfg *Config, c client.Client) {
		if live = c; opts.Configure != nil {
			opts.Configure(cfg)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("drain nodes: %w", err)
	}
	return drainBy(ctx, r, live, opts, nodes)
}

// standalone returns a Runner for one use.
func standalone(restConfig *rest.Config, change func(*Config, client.Client)) (*Runner, error) {
	if restConfig == nil {
		return nil, errors.New("the rest config is nil")
	}
	restConfig = rest.CopyConfig(restConfig)
	if restConfig.QPS == 0 && restConfig.RateLimiter == nil {
		restConfig.QPS = -1
	}
	restConfig.UserAgent = cmp.Or(restConfig.UserAgent, rest.DefaultKubernetesUserAgent())
	httpClient, err := rest.HTTPClientFor(restConfig)
	if err != nil {
		return nil, err
	}
	return newOver(restConfig, httpClient, httpClient, change)
}

// drainBy drains Nodes by a Runner that it starts. live reads Nodes from the API server.
func drainBy(ctx context.Context, r *Runner, live client.Reader, opts DrainOptions, names []string) ([]NodeResult, error) {
	if opts.Policy != nil { // before any Node is cordoned
		if err := opts.Policy.Validate(); err != nil {
			return nil, fmt.Errorf("drain nodes: %w", err)
		}
	}
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
	d := &drains{
		runner: r, live: live, opts: opts, of: map[string]*nodeDrain{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](500*time.Millisecond, 15*time.Second),
			workqueue.TypedRateLimitingQueueConfig[string]{Clock: r.cfg.Clock}),
	}
	for _, name := range names {
		d.of[name] = &nodeDrain{NodeResult: NodeResult{Node: name}}
	}
	return d.all(ctx, names)
}

// drains is one call of Drain.
type drains struct {
	runner *Runner
	live   client.Reader
	opts   DrainOptions
	queue  workqueue.TypedRateLimitingInterface[string]
	of     map[string]*nodeDrain

	mu    sync.Mutex // held during Progress
	ended int
}

// nodeDrain is the drain of one Node. Only the worker that has its name reads and changes it.
type nodeDrain struct {
	NodeResult // as it was reported last

	node   *corev1.Node
	readAt time.Time
	failed atomic.Bool // the last step: changes of Pods do not shorten the pause after it
	told   bool
}

// all lets workers step the Nodes whose names are in the queue until all of them have ended.
func (d *drains) all(ctx context.Context, names []string) ([]NodeResult, error) {
	defer d.runner.addSink(func(node string, _ types.NamespacedName) {
		if n := d.of[node]; n != nil && !n.failed.Load() {
			d.queue.AddAfter(node, d.runner.cfg.Debounce)
		}
	})()
	for _, name := range names {
		d.queue.Add(name)
	}
	if len(names) == 0 {
		d.queue.ShutDown()
	}
	var workers sync.WaitGroup
	stop := context.AfterFunc(ctx, d.queue.ShutDown)
	for range min(len(names), 8) {
		workers.Go(func() {
			for name, over := d.queue.Get(); !over; name, over = d.queue.Get() {
				d.step(ctx, d.of[name])
				d.queue.Done(name)
			}
		})
	}
	workers.Wait()
	stop()
	results, errs := make([]NodeResult, 0, len(names)), make([]error, 0, len(names))
	for _, name := range names {
		n := d.of[name]
		if !n.Ended { // ctx has ended
			d.end(n, n.Result, fmt.Errorf("drain node %s: %w", name, context.Cause(ctx)))
		}
		results, errs = append(results, n.NodeResult), append(errs, n.Err)
	}
	return results, errors.Join(errs...)
}

// step steps one Node, and requests its next step.
func (d *drains) step(ctx context.Context, n *nodeDrain) {
	if n.Ended {
		return
	}
	result, err := d.look(ctx, n)
	n.failed.Store(err != nil)
	switch {
	case ctx.Err() != nil && !result.Done, errors.Is(err, errStopped): // the cause follows
	case err != nil && isFinal(err):
		d.end(n, n.Result, err)
	case err != nil:
		d.tell(n, n.Result, err)
		d.queue.AddRateLimited(n.Node)
	case result.Done:
		d.end(n, result, nil)
	default:
		d.queue.Forget(n.Node)
		d.tell(n, result, nil)
		rest := result.RequeueAfter
		undone := slices.ContainsFunc(result.Blockers, func(b drain.Blocker) bool { return b.Reason == drain.ReasonUncordoned })
		if !n.node.Spec.Unschedulable && !undone {
			rest = min(rest, d.runner.cfg.Debounce) // the cordon was sent: read whether the Node shows it
		}
		d.queue.AddAfter(n.Node, rest)
	}
}

// look reads the Node if necessary and calls Step. It returns Done only for a Node that was read for it.
func (d *drains) look(ctx context.Context, n *nodeDrain) (Result, error) {
	fresh := n.node == nil || !n.node.Spec.Unschedulable || n.Err != nil || d.runner.cfg.Clock.Since(n.readAt) >= probeInterval
	for {
		if fresh {
			if err := d.read(ctx, n); err != nil {
				return Result{}, fmt.Errorf("drain node %s: %w", n.Node, err)
			}
		}
		result, err := d.runner.Step(ctx, Request{Node: n.node, Rules: d.opts.Rules, Policy: d.opts.Policy})
		if err != nil || !result.Done || fresh {
			return result, err
		}
		fresh = true
	}
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
	n.node, n.readAt = &node, d.runner.cfg.Clock.Now()
	return nil
}

// end reports the last result of a Node, and releases it. The Node stays cordoned, so that another drain can resume.
func (d *drains) end(n *nodeDrain, result Result, err error) {
	n.Ended = true
	d.runner.Release(n.Node)
	d.tell(n, result, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended++; d.ended == len(d.of) {
		d.queue.ShutDown()
	}
}

// tell calls Progress if the result has changed.
func (d *drains) tell(n *nodeDrain, result Result, err error) {
	before, after := n.Result, result
	before.RequeueAfter, after.RequeueAfter = 0, 0
	unchanged := n.told && err == nil && !n.Ended && n.Err == nil && reflect.DeepEqual(before, after)
	n.Result, n.Err, n.told = result, err, true
	if unchanged || d.opts.Progress == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opts.Progress(n.NodeResult)
}

// isFinal reports that retries do not remove an error.
func isFinal(err error) bool {
	return errors.Is(err, errNodeReplaced) || errors.Is(err, errInvalidRequest) ||
		apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

// Cordon makes Nodes unschedulable, and Uncordon makes them schedulable again; what a drain has evicted stays where it is. A Node that is
// so already is not written. Each names in its error the Nodes that failed, and goes on with the others.
func Cordon(ctx context.Context, restConfig *rest.Config, nodes ...string) error {
	return setAll(ctx, restConfig, true, nodes)
}

// Uncordon is the opposite of [Cordon].
func Uncordon(ctx context.Context, restConfig *rest.Config, nodes ...string) error {
	return setAll(ctx, restConfig, false, nodes)
}

func setAll(ctx context.Context, restConfig *rest.Config, unschedulable bool, names []string) error {
	var live client.Client
	r, err := standalone(restConfig, func(_ *Config, c client.Client) { live = c })
	if err != nil {
		return fmt.Errorf("change whether nodes are schedulable: %w", err)
	}
	var errs []error
	for _, name := range names {
		var node corev1.Node
		if err := live.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			errs = append(errs, fmt.Errorf("read node %s: %w", name, err))
		} else if node.Spec.Unschedulable != unschedulable {
			errs = append(errs, r.setUnschedulable(ctx, live, &node, unschedulable))
		}
	}
	return errors.Join(errs...)
}
