package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// DrainOptions configure [Drain].
type DrainOptions struct {
	// Nodes reads Nodes from the API server, not from a cache. Required.
	Nodes client.Reader
	// Timeout is how long the whole call may take, including requests without an answer; 0 means until ctx ends.
	Timeout time.Duration
	// Rules and Policy are those of every Node's [Request]; nil means the defaults.
	Rules  []drain.Rule
	Policy *drain.Policy
	// Progress is called when the state of a Node changes, and when its drain ends. Calls do not overlap. May be nil.
	Progress func(NodeResult)
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
// in the order of the names. The error joins the errors of the Nodes. All Nodes share one [Runner] with cfg, so limits and budgets apply to
// all of them together.
//
// When ctx ends or the time is used up ([ErrOutOfTime]), Drain returns soon: requests in flight are ended, Nodes stay cordoned, and the
// next Drain, also by another process, resumes. All goroutines end before Drain returns.
func Drain(ctx context.Context, cfg Config, opts DrainOptions, nodes ...string) ([]NodeResult, error) {
	if opts.Nodes == nil {
		return nil, errors.New("drain nodes: DrainOptions.Nodes is required")
	}
	if opts.Policy != nil { // before any Node is cordoned
		if err := opts.Policy.Validate(); err != nil {
			return nil, fmt.Errorf("drain nodes: %w", err)
		}
	}
	for i, name := range nodes {
		if name == "" || slices.Contains(nodes[:i], name) {
			return nil, fmt.Errorf("drain nodes: the name %q is empty or given twice", name)
		}
	}
	r, err := New(cfg)
	if err != nil {
		return nil, err
	}
	r.impatient = true
	d := &drains{runner: r, opts: opts}
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
	return d.all(ctx, nodes)
}

// drains is one call of Drain.
type drains struct {
	runner *Runner
	opts   DrainOptions

	mu sync.Mutex // held during Progress
}

func (d *drains) all(ctx context.Context, nodes []string) ([]NodeResult, error) {
	results := make([]NodeResult, len(nodes))
	var drains sync.WaitGroup
	for i := range nodes {
		drains.Go(func() { results[i] = d.one(ctx, nodes[i]) })
	}
	drains.Wait()
	errs := make([]error, 0, len(results))
	for i := range results {
		errs = append(errs, results[i].Err)
	}
	return results, errors.Join(errs...)
}

func (d *drains) one(ctx context.Context, name string) NodeResult {
	end := func(result Result, err error) NodeResult {
		last := NodeResult{Node: name, Ended: true, Result: result, Err: err}
		d.tell(last)
		return last
	}
	w := &waiter{
		runner: d.runner, nodes: d.opts.Nodes, name: name, req: Request{Rules: d.opts.Rules, Policy: d.opts.Policy},
		progress: func(result Result, err error) {
			if !result.Done {
				d.tell(NodeResult{Node: name, Result: result, Err: err})
			}
		},
	}
	if err := w.over(ctx); err != nil {
		return end(Result{}, err)
	}
	result, err := w.wait(ctx)
	if errors.Is(err, errStopped) {
		<-ctx.Done() // the cause follows
		err = w.failed(context.Cause(ctx))
	}
	return end(result, err)
}

func (d *drains) tell(result NodeResult) {
	if d.opts.Progress == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opts.Progress(result)
}
