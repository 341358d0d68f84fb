package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Options is what a [Clusters] works with. Zero durations and numbers mean the default that the field names; negative ones
// are refused, but for QPS.
type Options[T any] struct {
	// Access says how clusters are reached. Required.
	Access Access
	// Setup puts on a new connection what the caller needs: indexes, informers, a Node index, a drain runner. What it returns
	// is the Value of views. It runs in the background, once per connection, after the API server has answered and before
	// the cache starts, for ConnectTimeout at most. ctx ends with the connection, and that is when what Setup has started
	// must end; Connection.Go helps with that. An error gives the connection up, to be tried again later.
	//
	// For a Target that is Running it is called once for all clusters that share it. ctx then ends with the Clusters, or when another
	// Target has taken the place of this one and no cluster shares it any more.
	Setup func(ctx context.Context, connection *Connection) (T, error)
	// Scheme defaults to client-go's.
	Scheme *runtime.Scheme
	// Cache configures the cache of each connection, for example with transforms by object. HTTPClient, Scheme, Mapper and
	// ReaderFailOnMissingInformer are set here.
	Cache cache.Options
	// Logger tells of connections made and lost. The zero value is silent.
	Logger logr.Logger

	// UserAgent defaults to client-go's, with the word machinist behind it.
	UserAgent string
	// QPS and Burst limit the requests of each connection together, apart from probes. Zero or negative QPS means no limit, as
	// in controller-runtime: who waits for a limiter keeps a worker from other clusters, and API servers have priority and
	// fairness. Burst defaults to 30.
	QPS   float32
	Burst int
	// Timeout ends a request that is no watch, once sent; 10 s. What caches list ends when nothing has come of it for two minutes.
	Timeout time.Duration

	// Backoff is the pause after a failed attempt to connect or to connect again. Default: 1 s, doubled up to 30 s, with a
	// jitter of half of it.
	Backoff wait.Backoff
	// Jitter returns random numbers from 0 to below 1; math/rand's by default. It must be safe for concurrent use.
	Jitter func() float64
	// Parallel is how many connections may be built at once, from the answer of the API server to the end of Setup; 16.
	// Servers that do not answer are waited for by any number at once.
	Parallel int
	// ConnectTimeout bounds one call of Access and one of Setup; 30 s.
	ConnectTimeout time.Duration

	// ProbePath is asked for to find out whether an API server can serve; /readyz. Cluster API's in-memory API server has "/" instead.
	ProbePath string
	// ProbeTimeout ends a probe; 5 s.
	ProbeTimeout time.Duration
	// Silence is how long nothing may be heard of a connected server before it is probed; 90 s. A watch brings a bookmark
	// about every minute.
	Silence time.Duration
	// Patience is how long a request may wait for the first byte of its answer before the server is probed; 3 s.
	Patience time.Duration
	// PingAfter is how long a TCP connection may be idle before it is pinged (HTTP/2), and PingTimeout how long the answer may
	// take before it is closed; 30 s and 15 s. A connection that breaks has the server probed.
	PingAfter   time.Duration
	PingTimeout time.Duration

	// Idle is how long an unused connection stays; 10 min. See Clusters for what use is.
	Idle time.Duration

	// Clock defaults to the real one. TCP, TLS, HTTP/2 pings and the reflectors of client-go use the real one always.
	Clock clock.WithDelayedExecution
}

const (
	// probeGap keeps probes apart that trouble asks for: a webhook that always fails must not have its server probed all
	// the time.
	probeGap = 2 * time.Second
	// overdue is how long a cache may take to catch up with its server after an outage before everything is read anew. Bookmarks
	// come every minute.
	overdue = 3 * time.Minute
	// hopeless is the pause after which a missing or refused kubeconfig, that of a lost cluster, or a cluster that another component
	// runs is looked at again although no change was reported.
	hopeless = 5 * time.Minute
)

func (o *Options[T]) complete() error {
	var errs []error
	if o.Access == nil {
		errs = append(errs, errors.New("the Access is required"))
	}
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.UserAgent == "" {
		o.UserAgent = rest.DefaultKubernetesUserAgent() + " machinist"
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.ProbePath == "" {
		o.ProbePath = "/readyz"
	}
	if !strings.HasPrefix(o.ProbePath, "/") {
		errs = append(errs, fmt.Errorf("ProbePath %q must begin with a slash", o.ProbePath))
	}
	errs = append(errs,
		defaultTo(&o.Burst, 30, "Burst"),
		defaultTo(&o.Timeout, 10*time.Second, "Timeout"),
		defaultTo(&o.Parallel, 16, "Parallel"),
		defaultTo(&o.ConnectTimeout, 30*time.Second, "ConnectTimeout"),
		defaultTo(&o.ProbeTimeout, 5*time.Second, "ProbeTimeout"),
		defaultTo(&o.Silence, 90*time.Second, "Silence"),
		defaultTo(&o.Patience, 3*time.Second, "Patience"),
		defaultTo(&o.PingAfter, 30*time.Second, "PingAfter"),
		defaultTo(&o.PingTimeout, 15*time.Second, "PingTimeout"),
		defaultTo(&o.Idle, 10*time.Minute, "Idle"),
		completeBackoff(&o.Backoff),
	)
	return errors.Join(errs...)
}

func defaultTo[V int | time.Duration](field *V, value V, name string) error {
	if *field < 0 {
		return fmt.Errorf("%s must not be negative", name)
	}
	if *field == 0 {
		*field = value
	}
	return nil
}

func completeBackoff(b *wait.Backoff) error {
	if *b == (wait.Backoff{}) {
		*b = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}
	}
	if b.Duration <= 0 || b.Factor < 0 || b.Jitter < 0 || b.Cap < 0 {
		return errors.New("the Backoff needs a positive Duration, and no negative Factor, Jitter or Cap")
	}
	return nil
}

// backoff is the pauses of one cluster.
type backoff struct {
	initial wait.Backoff
	current wait.Backoff
	jitter  func() float64
}

func newBackoff(initial wait.Backoff, jitter func() float64) *backoff {
	return &backoff{initial: initial, current: initial, jitter: jitter}
}

// next returns the next pause. The jitter is added here and not by wait.Backoff, whose source of chance cannot be replaced.
func (b *backoff) next() time.Duration {
	spread := b.current.Jitter
	b.current.Jitter = 0
	pause := b.current.Step()
	b.current.Jitter = spread
	return b.spread(pause)
}

// spread adds the jitter to a pause.
func (b *backoff) spread(pause time.Duration) time.Duration {
	return pause + time.Duration(b.jitter()*b.initial.Jitter*float64(pause))
}

func (b *backoff) reset() { b.current = b.initial }
