package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/internal/patch"
)

// Runner drains Nodes: see the package comment. It is safe for concurrent use.
type Runner struct {
	cfg     Config
	kick    chan struct{} // wakes the dispatcher
	cordons *patch.Writer
	lists   *lists // nil for a Runner of New

	mu      sync.Mutex
	stopped <-chan struct{} // closed when Start ends; nil before Start
	nodes   map[string]*nodeState
	queue
	budgets budgets
	sinks   map[*sink]struct{}
}

// nodeState is the state of a draining Node in the Runner. It may be lost at any time. The lock of the Runner guards it.
type nodeState struct {
	name      string
	uid       types.UID
	owner     types.NamespacedName
	startedAt time.Time // first Step of this process
	cordon    cordon
	sawCordon bool                   // a Step has seen the cordon and the Pods
	attempts  map[types.UID]*attempt // of the Pods of the last Step; nil before the first one
	boundAt   time.Time              // when a Pod that must leave first appeared in a Step
	queue     []types.UID
	waits     map[types.NamespacedName]bool // budgets that hold Pods of the Node
	respawns  map[types.UID]respawning      // by controller of a Pod that has left
	blocked   map[string]time.Time          // since when, by key of the blockers of the last report
	// listedAgain: the Pods were listed again when none was left and the settle time was over.
	listedAgain bool
}

// New checks the configuration and returns a Runner over the caller's own ports, which reads no volumes. It sends no request before
// [Runner.Start].
func New(cfg Config) (*Runner, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new drain runner: %w", err)
	}
	return &Runner{
		cfg:     cfg,
		kick:    make(chan struct{}, 1),
		cordons: patch.NewWriter(nil, cfg.Clock),
		nodes:   map[string]*nodeState{},
		budgets: budgets{},
		sinks:   map[*sink]struct{}{},
		queue:   queue{workers: maxInFlight},
	}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader evicts.
func (r *Runner) NeedLeaderElection() bool { return true }

// Start sends the requests that Steps queue until ctx ends. It returns when the requests in flight have ended too. It implements
// manager.Runnable and can be called once.
func (r *Runner) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	if r.stopped != nil {
		r.mu.Unlock()
		return errors.New("start drain runner: it was started before")
	}
	r.stopped = ctx.Done()
	r.mu.Unlock()

	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ended := make(chan error, 1)
	running.Go(func() { ended <- r.cfg.Pods.Run(ctx, r.wakeNode) })
	return r.dispatch(ctx, ended)
}

// Release drops the state of a Node: its queue, its attempts and its watch. Responses to requests in flight are ignored. Releasing an
// unknown Node does nothing.
func (r *Runner) Release(node string) {
	r.mu.Lock()
	r.forgetLocked(node)
	r.mu.Unlock()
	r.cfg.Pods.Release(node)
}

func (r *Runner) forgetLocked(node string) {
	ns := r.nodes[node]
	if ns == nil {
		return
	}
	for _, a := range ns.attempts {
		a.drop()
	}
	delete(r.nodes, node)
	r.ring = slices.DeleteFunc(r.ring, func(other *nodeState) bool { return other == ns })
}

// enter returns the state of the Node, or starts a new drain when its UID has changed.
func (r *Runner) enter(req *Request) (*nodeState, error) {
	if req.Node == nil || req.Node.Name == "" || req.Node.UID == "" {
		return nil, fmt.Errorf("drain node: %w: the Node is nil or has no name or no uid; pass it as read from the API server",
			errInvalidRequest)
	}
	policy := req.policy()
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("drain node %s: %w: %w", req.Node.Name, errInvalidRequest, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stopped:
		return nil, fmt.Errorf("drain node %s: %w", req.Node.Name, errStopped)
	default:
	}
	ns := r.nodes[req.Node.Name]
	if ns == nil || ns.uid != req.Node.UID {
		r.forgetLocked(req.Node.Name)
		ns = &nodeState{
			name: req.Node.Name, uid: req.Node.UID, startedAt: r.cfg.Clock.Now(), waits: map[types.NamespacedName]bool{},
			respawns: map[types.UID]respawning{},
		}
		r.nodes[ns.name] = ns
		r.ring = append(r.ring, ns)
	}
	ns.owner = req.Owner
	if ns.owner == (types.NamespacedName{}) {
		ns.owner.Name = ns.name
	}
	return ns, nil
}

func (r *Runner) kickDispatcher() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}
