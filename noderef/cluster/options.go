package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Options configures a [Clusters]. A zero duration or number means the default that the field names. Negative values
// are refused, except for QPS.
type Options[T any] struct {
	// Access tells how to reach clusters. Required.
	Access Access
	// Setup prepares a new connection for the caller: indexes, informers, a Node index, a drain runner. Its result is
	// the Value of views. It runs in the background, once per connection, after the API server has answered and before
	// the cache starts, for 30 seconds at most. ctx ends with the connection, and then everything that Setup has
	// started must end; Connection.Go helps with that. After an error the connection is closed and retried later.
	Setup func(ctx context.Context, connection *Connection) (T, error)
	// Scheme defaults to client-go's.
	Scheme *runtime.Scheme
	// Cache configures the cache of each connection, for example with transforms by object. HTTPClient, Scheme, Mapper
	// and ReaderFailOnMissingInformer are overwritten.
	Cache cache.Options
	// Logger logs connections that are created and lost. The zero value logs nothing.
	Logger logr.Logger

	// UserAgent defaults to client-go's, followed by the word machinist.
	UserAgent string
	// QPS and Burst limit all requests of one connection, apart from probes. Zero or negative QPS means no limit, as in
	// controller-runtime: a request that waits for a limiter blocks a worker, and API servers have priority and
	// fairness. Burst defaults to 30.
	QPS   float32
	Burst int
	// Timeout limits a request that is not a watch, from when it is sent; 10 s. A list of a cache ends only when no
	// data has come for two minutes.
	Timeout time.Duration

	// Backoff is the pause after a failed attempt to connect. Default: 1 s, doubled up to 30 s, with a jitter of half of it.
	Backoff wait.Backoff

	// ProbePath is the path of probes; /readyz. Cluster API's in-memory API server serves "/" instead.
	ProbePath string
	// Patience is how long a request may wait for the first byte of its answer before the server is probed; 3 s.
	Patience time.Duration
	// idle is how long an unused connection is kept; 10 min. Clusters tells when a cluster is in use.
	idle time.Duration

	// Clock defaults to the real one. TCP, TLS, HTTP/2 pings and the reflectors of client-go always use the real one.
	Clock clock.WithDelayedExecution

	// Below are values that only tests set.

	// connectTimeout bounds one call of Access and one of Setup; 30 s.
	connectTimeout time.Duration
	// probeTimeout ends a probe; 5 s.
	probeTimeout time.Duration
	// silence is how long a connected server may be silent before it is probed; 90 s. A watch brings a bookmark about
	// every minute.
	silence time.Duration
	// pingAfter is how long a TCP connection may be idle before it is pinged (HTTP/2), and pingTimeout is how long the
	// answer may take before the connection is closed; 30 s and 15 s. A broken TCP connection causes a probe of the
	// server.
	pingAfter, pingTimeout time.Duration
}

// probeGap is the shortest time between two probes after trouble: a webhook that always fails must not cause constant
// probes.
const probeGap = 2 * time.Second

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
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Backoff == (wait.Backoff{}) {
		o.Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}
	}
	if o.Backoff.Duration <= 0 {
		errs = append(errs, errors.New("the Backoff needs a positive Duration"))
	}
	o.connectTimeout, o.probeTimeout = cmp.Or(o.connectTimeout, 30*time.Second), cmp.Or(o.probeTimeout, 5*time.Second)
	o.pingAfter, o.pingTimeout = cmp.Or(o.pingAfter, 30*time.Second), cmp.Or(o.pingTimeout, 15*time.Second)
	o.silence = cmp.Or(o.silence, 90*time.Second)
	if o.ProbePath == "" {
		o.ProbePath = "/readyz"
	}
	if !strings.HasPrefix(o.ProbePath, "/") {
		errs = append(errs, fmt.Errorf("ProbePath %q must begin with a slash", o.ProbePath))
	}
	errs = append(errs,
		defaultTo(&o.Burst, 30, "Burst"),
		defaultTo(&o.Timeout, 10*time.Second, "Timeout"),
		defaultTo(&o.Patience, 3*time.Second, "Patience"),
		defaultTo(&o.idle, 10*time.Minute, "idle"),
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
