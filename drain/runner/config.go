package runner

import (
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain"
)

// Config is what a [Runner] works with. Zero durations and counts mean the default that the field names.
type Config struct {
	// Nodes writes the cordon. Required.
	Nodes client.Writer
	// Pods knows the pods of draining Nodes; the Runner runs it. Required.
	Pods PodSource
	// Evictor asks for evictions. Required.
	Evictor Evictor
	// Deleter deletes pods where a rule or a policy says so. With nil such pods block with [drain.ReasonUnsupported].
	Deleter Deleter
	// Budgets reads PodDisruptionBudgets, from a cache: every Step lists those of the namespaces on its Node. With nil
	// only the API server's answers count: each refused pod is asked for again after ProbeInterval.
	Budgets client.Reader
	// Informers is the cache behind Budgets. With it a Step never waits for an unsynced cache, and an opening budget
	// wakes the owners of waiting Nodes; without it they look again after ProbeInterval.
	Informers Informers
	// Planner makes the plans; its zero value has the default rules.
	Planner drain.Planner
	// Volumes knows what is attached where; the Runner runs it. [Runner.StepVolumes] and drain.Policy.SerialVolumes need it.
	Volumes VolumeSource
	// VolumePlanner says which volumes are waited for; its zero value waits for all that are worth it.
	VolumePlanner drain.VolumePlanner
	// Events records on Nodes when a drain starts, when it is blocked for a new reason (each at most once in 10 min), and
	// when it is done; nil records nothing. After a restart what still holds is told once more.
	Events Events
	// Metrics count what happens; nil counts nothing. The caller registers them.
	Metrics *Metrics

	// Workers is how many requests may be under way at once; 64, about a quarter of what the API server's priority and
	// fairness gives one client. A throttled Runner halves it, and wins one back with every success.
	Workers int
	// MaxInFlightPerNode is how many of them may belong to one Node; 32.
	MaxInFlightPerNode int
	// MaxInFlightPerBudget is how many of them may belong to one budget; 4. More only conflict in the API server.
	MaxInFlightPerBudget int
	// QPS is how many requests may be sent per second, and Burst how many of them at once; 0 means no limit, and a Burst of
	// one second. There is none by default: what is under way is bounded, and the server says when it has enough.
	QPS   float64
	Burst int
	// CallTimeout ends a single API call; 10 s.
	CallTimeout time.Duration
	// ProbeInterval is how long a closed budget is left alone when no event comes; 15 s.
	ProbeInterval time.Duration
	// Debounce collects events before an owner is woken; 100 ms.
	Debounce time.Duration
	// Settle is how long a Node must have been seen cordoned before its drain can be Done, because the scheduler may
	// bind one more pod right after the cordon; 2 s. Negative means none. It counts from the first Step that was shown the
	// cordon, whoever cordoned the Node and when, and so once per process; it runs while pods go.
	Settle time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
}

// ErrNodeReplaced says that the Node at the API server is not the one that was passed: its UID differs.
var ErrNodeReplaced = errors.New("the node was replaced by another one of the same name")

// ErrStopped says that the Runner's context has ended, for example because leadership was lost.
var ErrStopped = errors.New("the drain runner has stopped")

// errReleased says that a Node was released while something looked at it. No caller sees it.
var errReleased = errors.New("the node was released")

// errInvalidRequest marks what Step refuses to begin.
var errInvalidRequest = errors.New("invalid request")

func (c *Config) complete() error {
	var errs []error
	require := func(missing bool, field string) {
		if missing {
			errs = append(errs, fmt.Errorf("%s is required", field))
		}
	}
	require(c.Nodes == nil, "Nodes")
	require(c.Pods == nil, "Pods")
	require(c.Evictor == nil, "Evictor")
	errs = append(errs,
		defaultTo(&c.Workers, 64, "Workers"),
		defaultTo(&c.MaxInFlightPerNode, 32, "MaxInFlightPerNode"),
		defaultTo(&c.MaxInFlightPerBudget, 4, "MaxInFlightPerBudget"),
		defaultTo(&c.CallTimeout, 10*time.Second, "CallTimeout"),
		defaultTo(&c.ProbeInterval, 15*time.Second, "ProbeInterval"),
		defaultTo(&c.Debounce, 100*time.Millisecond, "Debounce"),
		defaultTo(&c.Burst, max(1, int(math.Ceil(c.QPS))), "Burst"),
	)
	if c.QPS < 0 {
		errs = append(errs, errors.New("QPS must not be negative"))
	}
	if c.Settle == 0 {
		c.Settle = 2 * time.Second
	}
	c.Settle = max(0, c.Settle)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Informers != nil && c.Budgets == nil {
		errs = append(errs, errors.New("Informers is of no use without Budgets"))
	}
	return errors.Join(errs...)
}

func defaultTo[T int | time.Duration](field *T, value T, name string) error {
	if *field < 0 {
		return fmt.Errorf("%s must not be negative", name)
	}
	if *field == 0 {
		*field = value
	}
	return nil
}
