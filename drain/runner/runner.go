package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/internal/patch"
)

// Runner drains Nodes: see the package comment. It is safe for concurrent use.
type Runner struct {
	cfg        Config
	kick       chan struct{} // wakes the dispatcher
	cordons    *patch.Writer
	budgetList *listing     // nil without Config.Informers
	volumes    volumeSource // nil without Config.Volumes

	// looks orders reads of the Pods of a Node and the release of the Node: a read after the release would start a watch that no one ends.
	// It is never taken within mu, nor by what a source calls.
	looks sync.RWMutex

	mu      sync.Mutex
	stopped <-chan struct{} // closed when Start ends; nil before Start
	nodes   map[string]*nodeState
	queue
	budgets budgets
	sinks   map[*sink]struct{}
	sweptAt time.Time // when budgets were last dropped

	impatient bool // Start fails when budgets or volumes cannot be watched, because a caller waits for it
}

// nodeState is what the Runner remembers about a draining Node. All of it may be lost at any time. The lock of the Runner guards it.
type nodeState struct {
	name       string
	uid        types.UID
	owner      types.NamespacedName
	queue      []types.UID
	attempts   map[types.UID]*attempt
	waits      map[types.NamespacedName]bool // budgets that hold Pods of the Node
	cordonSeen time.Time                     // first Step that was shown the cordon, without a break
	progress   progress
	startedAt  time.Time // first Step of this process
	inFlight   int
	respawns   respawns
	// listedAgain: the Pods were listed again when none was left and the settle time was over.
	listedAgain bool
	released    bool // it is no longer in Runner.nodes
}

// New checks the configuration and returns a Runner. It sends no request before [Runner.Start].
func New(cfg Config) (*Runner, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new drain runner: %w", err)
	}
	r := &Runner{
		cfg:     cfg,
		kick:    make(chan struct{}, 1),
		cordons: patch.NewWriter(nil, cfg.Clock),
		nodes:   map[string]*nodeState{},
		budgets: budgets{},
		sinks:   map[*sink]struct{}{},
		queue:   queue{limit: maxInFlight, workers: maxInFlight, perNode: maxInFlightPerNode},
	}
	if cfg.Informers != nil && cfg.Budgets != nil {
		r.budgetList = newListing(cfg.Informers, "PodDisruptionBudgets", &policyv1.PodDisruptionBudget{})
		r.budgetList.clock, r.budgetList.changed = cfg.Clock, r.wakeAll
	}
	if cfg.Volumes {
		r.volumes = newCachedVolumes(cfg.Informers)
	}
	return r, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader evicts.
func (r *Runner) NeedLeaderElection() bool { return true }

// Start sends the requests that Steps queue until ctx ends. It returns when the requests in flight have ended too. While budgets or volumes
// cannot be watched, Step and StepVolumes return the error, and Start tries again. It implements manager.Runnable and can be called once.
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
	defer r.cfg.Metrics.cover(r)()

	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	sources := []func(context.Context) error{func(ctx context.Context) error { return r.cfg.Pods.Run(ctx, r.wakeNode) }}
	if r.budgetList != nil {
		r.budgetList.impatient = r.impatient
		sources = append(sources, r.watchBudgets)
	}
	if r.volumes != nil {
		r.volumes.configure(func(l *listing) { l.clock, l.impatient, l.changed = r.cfg.Clock, r.impatient, r.wakeAll })
		sources = append(sources, func(ctx context.Context) error { return r.volumes.run(ctx, r.wakeNode) })
	}
	if r.cfg.beside != nil {
		sources = append(sources, r.cfg.beside)
	}
	ended := make(chan error, len(sources))
	for _, run := range sources {
		running.Go(func() { ended <- run(ctx) })
	}
	return r.dispatch(ctx, ended)
}

// Release forgets a Node: its queue, its attempts and its watch. The answers to requests in flight are not followed up. Releasing an
// unknown Node does nothing.
func (r *Runner) Release(node string) {
	r.looks.Lock()
	defer r.looks.Unlock()
	r.mu.Lock()
	r.forgetLocked(node)
	r.mu.Unlock()
	r.cfg.Pods.Release(node)
}

// podsOf asks the source for the Pods of a Node, unless the Node was released.
func (r *Runner) podsOf(ns *nodeState) (pods []*corev1.Pod, synced bool, err error) {
	r.looks.RLock()
	defer r.looks.RUnlock()
	r.mu.Lock()
	released := ns.released
	r.mu.Unlock()
	if released {
		return nil, false, errReleased
	}
	return r.cfg.Pods.Pods(ns.name)
}

// listAgain begins the watch of a Node anew, with a list. A watch may be behind by any time without a sign: the process was stopped, or the
// connection or the API server carried nothing.
func (r *Runner) listAgain(ns *nodeState) {
	r.looks.Lock()
	defer r.looks.Unlock()
	r.mu.Lock()
	ns.listedAgain = true
	released := ns.released
	r.mu.Unlock()
	if !released { // otherwise the watch is that of another drain
		r.cfg.Pods.Release(ns.name)
	}
}

// whyUnlisted is the Message of a Result until the Pods of a Node are listed.
func (r *Runner) whyUnlisted(ns *nodeState) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ns.listedAgain {
		return settles
	}
	return waitsForPods
}

// Cancel ends the drain of a Node like [Runner.Release] and, with uncordon, makes the Node schedulable again. Evictions that the API server
// accepted cannot be taken back, and requests in flight may still be accepted. The next [Runner.Step] resumes the drain. It is an
// error if the Node in the API server has another UID.
func (r *Runner) Cancel(ctx context.Context, node *corev1.Node, uncordon bool) error {
	if node == nil || node.Name == "" {
		return errors.New("cancel drain: the node is nil or has no name")
	}
	r.Release(node.Name)
	if !uncordon {
		return nil
	}
	return r.patchUnschedulable(ctx, node, false)
}

func (r *Runner) forgetLocked(node string) {
	ns := r.nodes[node]
	if ns == nil {
		return
	}
	for _, a := range ns.attempts {
		a.drop()
	}
	if p := &ns.progress; !p.begun.IsZero() && !p.done {
		r.cfg.Metrics.drained(r.cfg.Clock.Since(p.begun), resultReleased)
	}
	ns.released = true
	delete(r.nodes, node)
	r.ring = slices.DeleteFunc(r.ring, func(other *nodeState) bool { return other == ns })
	if len(r.nodes) == 0 {
		r.budgets.forget(r.cfg.Clock.Now(), 0)
	}
}

func (r *Runner) kickDispatcher() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}
