package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Options configures a [Clusters]. A zero duration or number means the default given at the field.
type Options[T any] struct {
	// Access returns how to reach clusters. Required.
	Access Access
	// Setup prepares a new connection for the caller: indexes, informers, a Node index, a drain runner. Its result is the Value of views. It
	// runs in the background, once per connection, after the API server has answered and before the cache starts. ctx ends with the
	// connection, and then everything that Setup has started must end; Connection.Go helps with that. After an error the connection is closed
	// and retried later.
	Setup func(ctx context.Context, connection *Connection) (T, error)
	// Cache configures the cache of each connection, for example with transforms by object. HTTPClient, Scheme, Mapper,
	// ReaderFailOnMissingInformer and DefaultWatchErrorHandler are overwritten.
	Cache cache.Options

	// UserAgent defaults to client-go's, followed by the word machinist.
	UserAgent string
	// QPS and Burst limit all requests of one connection, apart from probes. Zero or negative QPS means no limit, as in
	// controller-runtime: a request that waits for a limiter blocks a worker, and API servers have priority and
	// fairness. Burst defaults to 30.
	QPS   float32
	Burst int

	// Backoff is the pause after a failed attempt to connect. Default: 1 s, doubled up to 30 s, with a jitter of up to half of it.
	Backoff wait.Backoff

	// ProbePath is the path of probes; default /readyz. Cluster API's in-memory API server serves "/" instead.
	ProbePath string

	// Clock defaults to the real one. TCP, TLS, HTTP/2 pings and the reflectors of client-go always use the real one.
	Clock clock.WithDelayedExecution

	// The following values are set only by tests.

	// idle is the time until an unused connection is closed; 10 min. See Clusters for when a cluster is in use.
	idle time.Duration
	// timeout limits a request that is not a watch, from when it is sent; 10 s. It does not limit requests of caches.
	timeout time.Duration
	// patience is how long a request may wait for the first byte of its response before the server is probed; 3 s.
	patience time.Duration
	// probeTimeout ends a probe; 5 s.
	probeTimeout time.Duration
}

func (o *Options[T]) complete() error {
	if o.Access == nil {
		return errors.New("the Access is required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Backoff.Duration <= 0 {
		o.Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}
	}
	o.UserAgent = cmp.Or(o.UserAgent, rest.DefaultKubernetesUserAgent()+" machinist")
	o.ProbePath, o.Burst = cmp.Or(o.ProbePath, "/readyz"), cmp.Or(o.Burst, 30)
	o.idle, o.timeout = cmp.Or(o.idle, 10*time.Minute), cmp.Or(o.timeout, 10*time.Second)
	o.patience, o.probeTimeout = cmp.Or(o.patience, 3*time.Second), cmp.Or(o.probeTimeout, 5*time.Second)
	return nil
}
