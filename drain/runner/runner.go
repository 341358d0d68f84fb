package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// Runner drains Nodes: see the package comment. It is safe for concurrent use.
type Runner struct {
	cfg  Config
	kick chan struct{} // wakes the dispatcher; one pending kick is enough

	// looks orders looks at the pods of a Node and its release: a look at a released Node would make the source watch it for
	// good. It is never taken within mu, nor by what a source calls.
	looks sync.RWMutex

	mu            sync.Mutex
	stopped       <-chan struct{} // closed when Start has to end; nil before Start
	nodes         map[string]*nodeState
	ring          []string // Nodes in the order of their first Step, for fairness
	turn          int
	attempts      map[types.UID]*attempt
	budgets       map[types.NamespacedName]*budgetState
	sinks         map[*sink]struct{}
	budgetsSynced func() bool // nil without Informers or before Start
	budgetsErr    error       // why budgets cannot be watched
	volumesErr    error       // why volumes cannot
	sweptAt       time.Time   // when budgets that do not count any more were dropped
	inFlight      int
	limit         int // of requests under way: halved when throttled, grows again with success
	paused        pause
	rate          bucket

	impatient bool // Start fails when budgets or volumes cannot be watched: somebody waits for it
}

// nodeState is what the Runner remembers about a draining Node; all of it may be lost at any time.
type nodeState struct {
	uid        types.UID
	owner      types.NamespacedName
	queue      []types.UID
	attempts   map[types.UID]*attempt
	waits      map[types.NamespacedName]bool // budgets that hold pods of the Node
	since      map[string]time.Time          // by blocker key
	selectors  drain.Selectors               // of the budgets that the last plan looked at
	cordon     cordonMemo
	cordonSeen time.Time // first look that showed the Node cordoned, without a break
	turns      *drain.VolumeTurns
	progress   progress
	startedAt  time.Time // first Step of this process
	taintedAt  string    // resource version of the look that was answered with a taint patch
	inFlight   int
	respawns   respawns
}

// pause keeps all requests back.
type pause struct {
	until   time.Time
	hold    drain.Hold
	refused error // the credentials were refused
}

// Request says which Node to drain.
type Request struct {
	// Node as the caller last observed it. It is shared and not changed.
	Node *corev1.Node
	// Owner is enqueued through [Runner.Source] when there is something new about the Node.
	Owner types.NamespacedName
	// Rules replaces the planner's rules for this Node when it is not nil.
	Rules []drain.Rule
	// Policy says how the drain escalates; nil is the zero policy, which evicts for ever.
	Policy *drain.Policy
	// StartedAt is when the drain began. Stages of the policy count from it, so an owner persists it. Zero means the first
	// Step of this process.
	StartedAt time.Time
	// Deadline is when the Node goes away whatever is left on it, for [drain.ModeClamp]; zero means never.
	Deadline time.Time
	// PoweredOff: the provider confirms that the instance is off. It counts only where the policy has an
	// [drain.UnreachablePolicy].
	PoweredOff bool
	// InstanceGone: the provider confirms that there is no instance. Nothing is sent and nothing waited for then: the drain
	// is Done at once.
	InstanceGone bool
}

// Result is where the drain of a Node stands.
type Result struct {
	// Done: the Node is cordoned, its pods are completely known and none of them blocks; or its instance is gone.
	Done bool
	// Abandoned: the policy gave the drain up while pods were left. Nothing more is sent; Done is false.
	Abandoned bool
	Counts    drain.Counts
	// Blockers are sorted and say since when, as far as this process remembers.
	Blockers []drain.Blocker
	// Volumes are those that drain.Policy.SerialVolumes waits for before the next pod goes, sorted. Volumes that are waited for
	// after the drain are in [VolumesResult].
	Volumes []VolumeRef
	// Message says what is left to do, in Cluster API's lines without their first one; empty when Done. Equal states
	// give equal messages.
	Message string
	// RequeueAfter is when to call Step again even if nothing wakes the owner; 0 when Done or Abandoned.
	RequeueAfter time.Duration
}

// New checks the configuration and returns a Runner that does nothing before [Runner.Start].
func New(cfg Config) (*Runner, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new drain runner: %w", err)
	}
	return &Runner{
		cfg:      cfg,
		kick:     make(chan struct{}, 1),
		nodes:    map[string]*nodeState{},
		attempts: map[types.UID]*attempt{},
		budgets:  map[types.NamespacedName]*budgetState{},
		sinks:    map[*sink]struct{}{},
		limit:    cfg.Workers,
		rate:     newBucket(cfg.QPS, cfg.Burst),
	}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader evicts.
func (r *Runner) NeedLeaderElection() bool { return true }

// Start evicts what Steps queue until ctx ends, and returns when the requests under way have ended too. While the server cannot be
// asked how to watch budgets or volumes, Steps and StepVolumes say so, and it is asked again. It implements manager.Runnable and can be
// called once.
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

	stopWatching, err := r.watchBudgets(ctx)
	if err != nil && r.impatient {
		return fmt.Errorf("start drain runner: %w", err)
	}
	defer stopWatching()
	defer r.cfg.Metrics.cover(r)()

	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if err != nil {
		running.Go(func() { r.watchBudgetsLater(ctx, err) })
	}
	sourceEnded := make(chan error, 2)
	if r.cfg.Volumes != nil {
		running.Go(func() { sourceEnded <- r.runVolumes(ctx) })
	}
	running.Go(func() { sourceEnded <- r.cfg.Pods.Run(ctx, r.wakeNode) })
	return r.dispatch(ctx, sourceEnded)
}

// Release forgets a Node: its queue, its attempts and its watch. Requests under way finish and are not followed up.
// Releasing an unknown Node does nothing.
func (r *Runner) Release(node string) {
	r.looks.Lock()
	defer r.looks.Unlock()
	r.mu.Lock()
	r.forgetLocked(node)
	r.mu.Unlock()
	r.cfg.Pods.Release(node)
}

// podsOf asks the source for the pods of a Node, unless the Node was released meanwhile.
func (r *Runner) podsOf(node string, uid types.UID) (pods []*corev1.Pod, synced bool, err error) {
	r.looks.RLock()
	defer r.looks.RUnlock()
	r.mu.Lock()
	ns := r.nodes[node]
	r.mu.Unlock()
	if ns == nil || ns.uid != uid {
		return nil, false, errReleased
	}
	return r.cfg.Pods.Pods(node)
}

// Cancel ends the drain of a Node like [Runner.Release] and, if asked, makes it schedulable again. Evictions that the
// API server has accepted cannot be taken back, and requests under way may still be accepted. The drain can be resumed by
// the next [Runner.Step]. With uncordon, an out-of-service taint that this package has put on the Node goes too. It returns
// an error that matches [ErrNodeReplaced] when the Node at the server has another UID.
func (r *Runner) Cancel(ctx context.Context, node *corev1.Node, uncordon bool) error {
	if node == nil || node.Name == "" {
		return errors.New("cancel drain: the node is nil or has no name")
	}
	r.Release(node.Name)
	if !uncordon {
		return nil
	}
	if _, err := r.patchUnschedulable(ctx, node, false); err != nil {
		return err
	}
	return r.removeTaint(ctx, node)
}

func (r *Runner) forgetLocked(node string) {
	ns := r.nodes[node]
	if ns == nil {
		return
	}
	for _, a := range ns.attempts {
		r.dropLocked(ns, a)
	}
	if p := &ns.progress; !p.begun.IsZero() && !p.done {
		r.cfg.Metrics.drained(r.cfg.Clock.Since(p.begun), resultReleased)
	}
	delete(r.nodes, node)
	r.ring = slices.DeleteFunc(r.ring, func(name string) bool { return name == node })
	if len(r.nodes) == 0 {
		now := r.cfg.Clock.Now()
		maps.DeleteFunc(r.budgets, func(_ types.NamespacedName, b *budgetState) bool { return b.over(now) })
	}
}

func (r *Runner) kickDispatcher() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}
