package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Defaults of GateOptions. Flags --machine-safety-apiserver-statuscheck-period and --machine-safety-apiserver-statuscheck-timeout.
const (
	DefaultGatePeriod    = time.Minute
	DefaultGateTolerance = 30 * time.Second
	// probeLimit is the timeout of a probe.
	probeLimit = 10 * time.Second
	// probesAtOnce is the number of parallel probes.
	probesAtOnce = 8
	// gateRetry is the delay before a step checks a closed gate again.
	gateRetry = time.Second
)

// GateOptions configure a Gate. Management is required.
type GateOptions struct {
	// Management sends any request to the API server of the Machines; nil means that it has responded. See Answers.
	Management func(context.Context) error
	// Workload sends a request to the API server of a Machine's cluster; nil: only Management counts. cluster.NodesOf makes no request and
	// fails with cluster.ErrNotConnected while there is no connection. An error that matches cluster.ErrNoKubeconfig is not a response, but
	// means that there is no server: the cluster is being created, or is gone.
	Workload func(ctx context.Context, cluster types.NamespacedName) error
	// Initialized reports whether the API server of a cluster should respond although it never has since this process started; false while the
	// cluster is being created. Nil: a server counts once it has responded.
	Initialized func(ctx context.Context, cluster types.NamespacedName) bool
	// Period is the time between two probes, and Tolerance the time that a server may not respond. Defaults DefaultGatePeriod and
	// DefaultGateTolerance.
	Period, Tolerance time.Duration
	// Deletions: FreezeStep stops deletions too.
	Deletions bool
	// Clock is the time of probes. Default: the real clock.
	Clock clock.Clock
	// Metrics count frozen servers; nil counts nothing.
	Metrics *Metrics
}

// Gate probes API servers, and closes while one does not respond. It is a manager.Runnable without leader election, so that all replicas
// measure the length of an outage. Its state is in memory: a process that starts during an outage begins with a closed gate. Safe for
// concurrent use.
type Gate struct {
	options GateOptions

	mu      sync.Mutex
	servers map[types.NamespacedName]server // that of the Machines has the zero name
}

// server is the state of one API server.
type server struct {
	reach  reach
	probed time.Time // when it was last probed
	err    error
	// none: there is no server to probe. wanted: Of was called since the last probe.
	none, wanted bool
}

// NewGate returns a Gate. It makes no request.
func NewGate(o GateOptions) (*Gate, error) {
	if o.Management == nil {
		return nil, errors.New("GateOptions.Management is not set")
	}
	o.Period = cmp.Or(max(o.Period, 0), DefaultGatePeriod)
	o.Tolerance = cmp.Or(max(o.Tolerance, 0), DefaultGateTolerance)
	if o.Period < o.Tolerance { // Gardener's own rule
		return nil, fmt.Errorf("GateOptions.Period %s is shorter than Tolerance %s: give at least as much", o.Period, o.Tolerance)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Gate{options: o, servers: map[types.NamespacedName]server{{}: {}}}, nil
}

// Answers returns a function for GateOptions.Management: it reads an object that does not exist, of a kind and in a namespace; the error
// NotFound is a response. The reader must not be a cache. Rule: Gardener's probe.
func Answers(reader client.Reader, kind contract.Kind, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		key := client.ObjectKey{Namespace: namespace, Name: "machinist-probe"}
		if err := reader.Get(ctx, key, engine.NewObject(kind)); err != nil && !external.IsGone(err) {
			return err
		}
		return nil
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (g *Gate) NeedLeaderElection() bool { return false }

// Start probes until the context ends, and checks each second which servers are due.
func (g *Gate) Start(ctx context.Context) error {
	for {
		g.Probe(ctx)
		timer := g.options.Clock.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Probe probes the servers that are due.
func (g *Gate) Probe(ctx context.Context) {
	var due []types.NamespacedName
	for key, s := range g.known() {
		if g.isDue(s) {
			due = append(due, key)
		}
	}
	workqueue.ParallelizeUntil(ctx, probesAtOnce, len(due), func(i int) { g.probe(ctx, due[i]) })
	frozen := 0
	for key, s := range g.known() {
		if s.reach.frozen && (key.Name == "" || g.shouldAnswer(ctx, key, s)) {
			frozen++
		}
	}
	g.options.Metrics.reached(frozen)
}

// shouldAnswer reports whether the API server of a cluster should exist: a cluster that is being created has none yet.
func (g *Gate) shouldAnswer(ctx context.Context, cluster types.NamespacedName, s server) bool {
	return !s.none && (s.reach.answered || (g.options.Initialized != nil && g.options.Initialized(ctx, cluster)))
}

// known returns the present state of each server.
func (g *Gate) known() map[types.NamespacedName]server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.servers)
}

// isDue reports whether a server is due for a probe.
func (g *Gate) isDue(s server) bool {
	now, wait := g.options.Clock.Now(), g.options.Period
	if !s.none {
		wait = s.reach.next(g.options.Period, g.options.Tolerance)
	}
	return s.probed.IsZero() || now.Before(s.probed) || !now.Before(s.probed.Add(wait))
}

func (g *Gate) probe(ctx context.Context, key types.NamespacedName) {
	limited, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var err error
	if key == (types.NamespacedName{}) {
		err = g.options.Management(limited)
	} else {
		err = g.options.Workload(limited, key)
	}
	if ctx.Err() != nil {
		return // the process ends: that is not a response of the server
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s, found := g.servers[key]
	now := g.options.Clock.Now()
	switch {
	case !found:
	case key.Name != "" && errors.Is(err, cluster.ErrNoKubeconfig) && !s.wanted:
		delete(g.servers, key) // nothing depends on the server now
	case key.Name != "" && errors.Is(err, cluster.ErrNoKubeconfig):
		g.servers[key] = server{probed: now, err: err, none: true}
	default:
		g.servers[key] = server{reach: s.reach.observe(err == nil, now, g.options.Tolerance), probed: now, err: err}
	}
}

// Of returns the input of a health check: whether one of the API servers that the objects of a cluster depend on does not respond, and
// since when all of them do; the zero name is for objects without a cluster. After the first call for a cluster it is probed, until it has
// no kubeconfig and Of is not called for it. With a nil Gate all servers have always responded.
func (g *Gate) Of(cluster types.NamespacedName) healthcheck.Reach {
	r := g.of(cluster)
	return healthcheck.Reach{Silent: r.silent(), AnsweredAt: r.thawedAt}
}

// of is Of with the Gate's own type.
func (g *Gate) of(cluster types.NamespacedName) reach {
	if g == nil {
		return reach{answered: true}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	management := g.servers[types.NamespacedName{}].reach
	if cluster.Name == "" || g.options.Workload == nil {
		return management
	}
	s := g.servers[cluster]
	s.wanted = true
	g.servers[cluster] = s
	return both(management, s.reach)
}

// closedFor returns why nothing may be created for a cluster now; it is empty when the gate is open. The API server of the Machines must
// have responded once. A cluster that is being created, or that has no kubeconfig, delays nothing.
func (g *Gate) closedFor(ctx context.Context, cluster types.NamespacedName) string {
	if !g.of(cluster).silent() {
		return ""
	}
	known := g.known()
	management, own := known[types.NamespacedName{}], known[cluster]
	switch {
	case management.reach.silent():
		return closed("the API server of the Machines", management)
	case g.shouldAnswer(ctx, cluster, own):
		return closed("the API server of cluster "+cluster.String(), own)
	}
	return ""
}

func closed(name string, s server) string {
	if s.err == nil {
		return name + " has not been probed yet"
	}
	return fmt.Sprintf("%s has not answered since %s: %v", name, s.reach.downSince.UTC().Format(time.RFC3339), s.err)
}
