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

// observer tells Metrics what one Reconciler does. A nil observer does nothing. Safe for concurrent use.
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

// failures are the two ways in which an operation fails.
type failures struct{ errors, conflicts prometheus.Counter }

// stepSeries are the series of a step, looked up once.
type stepSeries struct {
	failures

	took                                      prometheus.Observer
	done, stopped, checkpoint, conflict, fail prometheus.Counter
}

// The operations that are no steps.
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

// newObserver returns nil where nobody wants to know.
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

// series makes the series of a step, so that they are there, at zero, before anything happens.
func (m *Metrics) series(step string) stepSeries {
	step = strings.ToValidUTF8(step, "?")
	result := func(name string) prometheus.Counter { return m.results.WithLabelValues(step, name) }
	return stepSeries{
		failures: m.failures(step), took: m.stepTime.WithLabelValues(step),
		done: result(resultDone), stopped: result(resultStopped), checkpoint: result(resultCheckpoint),
		conflict: result(resultConflict), fail: result(resultFailed),
	}
}

// activate has the Machines counted while the controller runs: from its start until its end, which is that of ctx.
func (o *observer) activate(ctx context.Context, r *Reconciler) {
	if o != nil && o.active.CompareAndSwap(false, true) {
		context.AfterFunc(ctx, o.metrics.activate(ctx, r))
	}
}

// begin is the begin of a call, and end its end. Where no controller was started, the first call shows that this process acts.
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

// unread is a Machine that could not be read.
func (o *observer) unread() {
	if o != nil {
		o.read.errors.Inc()
	}
}

// now is the time; where nobody wants to know, there is none.
func (o *observer) now() time.Time {
	if o == nil {
		return time.Time{}
	}
	return o.clock.Now()
}

// ran is told after each step.
func (o *observer) ran(step string, since time.Time, result Result, err error) {
	if o == nil {
		return
	}
	series, found := o.steps[step]
	if !found {
		return // not of this Reconciler
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

// passed is told at the end of a pass, with everything that went wrong in it.
func (o *observer) passed(s *Scope, again time.Duration, err error) {
	if o == nil {
		return
	}
	result := resultDone
	switch {
	case err != nil && gone(err, s): // all is done
	case err != nil && patch.Retryable(err):
		result = resultConflict
	case err != nil:
		result = resultFailed
	case again > 0:
		result = resultRequeued
	}
	o.passes[result].Observe(o.clock.Since(s.Now).Seconds())
}

// wrote is told when the pass has written what it decided, or found that there is nothing to write.
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
