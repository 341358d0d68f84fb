package machine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/machinist-dev/machinist/contract/patch"
)

// observer updates Metrics for one Reconciler. A nil observer does nothing. Safe for concurrent use.
type observer struct {
	metrics *Metrics
	clock   clock.PassiveClock
	// steps are the series of each step, passes those of each result of a pass, and the others are about the Machine itself.
	steps       map[string]stepSeries
	passes      map[string]prometheus.Observer
	read, write failures
	active      atomic.Bool // the Reconciler's Machines are counted, or were

	mu     sync.Mutex
	phases map[types.NamespacedName]phaseTrack
}

// failures are the counters of the two ways in which an operation fails.
type failures struct{ errors, conflicts prometheus.Counter }

// stepSeries are the series of a step, looked up once.
type stepSeries struct {
	failures

	took                                      prometheus.Observer
	done, stopped, checkpoint, conflict, fail prometheus.Counter
}

// Operations that are not steps.
const (
	operationRead  = "read"
	operationWrite = "write"
)

// Results of passes and steps.
const (
	resultDone       = "done"
	resultRequeued   = "requeued"
	resultStopped    = "stopped"
	resultCheckpoint = "checkpoint"
	resultConflict   = "conflict"
	resultFailed     = "failed"
)

// newObserver returns nil without Options.Metrics.
func newObserver(o Options) *observer {
	if o.Metrics == nil {
		return nil
	}
	obs := &observer{
		metrics: o.Metrics, clock: o.Clock, phases: map[types.NamespacedName]phaseTrack{},
		steps: map[string]stepSeries{}, passes: map[string]prometheus.Observer{},
		read:  failures{errors: o.Metrics.errors.WithLabelValues(operationRead)},
		write: o.Metrics.failures(operationWrite),
	}
	for _, step := range o.Steps {
		obs.steps[step.Name] = o.Metrics.series(step.Name)
	}
	for _, result := range []string{resultDone, resultRequeued, resultConflict, resultFailed} {
		obs.passes[result] = o.Metrics.passTime.WithLabelValues(result)
	}
	return obs
}

func (m *Metrics) failures(operation string) failures {
	return failures{errors: m.errors.WithLabelValues(operation), conflicts: m.conflicts.WithLabelValues(operation)}
}

// series creates the series of a step, so that they exist, with zero, from the start.
func (m *Metrics) series(step string) stepSeries {
	step = strings.ToValidUTF8(step, "?")
	result := func(name string) prometheus.Counter { return m.results.WithLabelValues(step, name) }
	return stepSeries{
		failures: m.failures(step), took: m.stepTime.WithLabelValues(step),
		done: result(resultDone), stopped: result(resultStopped), checkpoint: result(resultCheckpoint),
		conflict: result(resultConflict), fail: result(resultFailed),
	}
}

// activate counts the Machines while the controller runs: from its start until ctx ends.
func (o *observer) activate(ctx context.Context, r *Reconciler) {
	if o != nil && o.active.CompareAndSwap(false, true) {
		context.AfterFunc(ctx, o.metrics.activate(ctx, r))
	}
}

// begin is called at the start of a pass, and end at its end. Where no controller was started, the first pass shows that this process is
// active.
func (o *observer) begin(ctx context.Context, r *Reconciler) {
	if o == nil {
		return
	}
	o.metrics.workers.Inc()
	if r.indexed && !o.active.Load() {
		o.activate(context.WithoutCancel(ctx), r)
	}
}

func (o *observer) end() {
	if o != nil {
		o.metrics.workers.Dec()
	}
}

// unread is called for a Machine that could not be read.
func (o *observer) unread() {
	if o != nil {
		o.read.errors.Inc()
	}
}

// now returns the time, zero for a nil observer.
func (o *observer) now() time.Time {
	if o == nil {
		return time.Time{}
	}
	return o.clock.Now()
}

// ran is called after each step.
func (o *observer) ran(step string, since time.Time, result Result, err error) {
	if o == nil {
		return
	}
	series, found := o.steps[step]
	if !found {
		return // not a step of this Reconciler
	}
	series.took.Observe(o.clock.Since(since).Seconds())
	switch {
	case err != nil && patch.Retryable(err):
		series.conflict.Inc()
		series.conflicts.Inc()
	case err != nil:
		series.fail.Inc()
		series.errors.Inc()
	case result.Checkpoint:
		series.checkpoint.Inc()
	case result.Stop:
		series.stopped.Inc()
	default:
		series.done.Inc()
	}
}

// passed is called at the end of a pass, with all its errors.
func (o *observer) passed(s *Scope, again time.Duration, err error) {
	if o == nil {
		return
	}
	result := resultDone
	switch {
	case err != nil && gone(err, s): // the deletion is completed
	case err != nil && patch.Retryable(err):
		result = resultConflict
	case err != nil:
		result = resultFailed
	case again > 0:
		result = resultRequeued
	}
	o.passes[result].Observe(o.clock.Since(s.Now).Seconds())
}

// wrote is called when the pass has written its decisions, or has found that there is nothing to write.
func (o *observer) wrote(s *Scope, err error) {
	if o == nil {
		return
	}
	switch {
	case err == nil || gone(err, s):
	case patch.Retryable(err):
		o.write.conflicts.Inc()
	default:
		o.write.errors.Inc()
	}
	o.followPhase(s, err)
}
