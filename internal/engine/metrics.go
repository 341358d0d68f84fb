package engine

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/machinist-dev/machinist/internal/patch"
)

// Metrics are the Prometheus metrics of the passes of Reconcilers of one kind, a prometheus.Collector. The caller creates them, sets them
// in the Options of a Reconciler and registers them; nothing registers itself:
//
//	metrics := pass.NewMetrics(pass.MetricsOptions{Kind: "MachineSet"})
//	err := registry.Register(metrics) // controller-runtime's metrics.Registry, or any other
//	options.Metrics = metrics
//
// Those of Machines are machine.Metrics, which contain these. Several Reconcilers can share one, then their values are added; or each has
// its own, with a unique MetricsOptions.Name, and all of them fit into one registry. Nil Metrics count nothing and cost nothing. Safe
// for concurrent use.
//
// No label names an object, and every label has a bounded set of values: steps are named, and an operation is a step, or
// read or write of the object itself. The durations of steps are in the execution trace.
//
// The metrics, where KIND is the kind in lower case:
//
//	machine_controller_errors_total{controller,operation}: counter
//		Errors that are retried, by operation; without conflicts.
//	machine_controller_workers_running{controller}: gauge
//		Passes that are under way.
//	machinist_KIND_pass_duration_seconds{controller,result}: histogram
//		Time of a pass, writes included, by how it ended: done, requeued, conflict or failed.
//		Buckets: 0.0005 0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30.
//	machinist_KIND_step_results_total{controller,result,step}: counter
//		Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed.
//	machinist_KIND_undone_writes_total{controller}: counter
//		Writes that were put off because others undo them.
type Metrics struct {
	errors, results *prometheus.CounterVec
	passTime        *prometheus.HistogramVec
	workers         prometheus.Gauge
	undone          prometheus.Counter
}

var _ prometheus.Collector = (*Metrics)(nil)

// MetricsOptions say what Metrics are about.
type MetricsOptions struct {
	// Kind is part of the metrics' names, such as MachineSet. It is required.
	Kind string
	// Name is the value of the label controller on every series, so that several Metrics can be in one registry. Default: the kind in lower
	// case, as Options.Name; with that, the label has the value of controller-runtime's own metrics.
	Name string
}

// Labels returns the constant labels of the metrics.
func (o MetricsOptions) Labels() prometheus.Labels {
	return prometheus.Labels{"controller": strings.ToValidUTF8(cmp.Or(o.Name, strings.ToLower(o.Kind)), "?")}
}

// NewMetrics returns metrics without values for the Options of a kind's Reconciler.
func NewMetrics(o MetricsOptions) *Metrics {
	fixed, kind := o.Labels(), "machinist_"+strings.ToLower(o.Kind)
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: fixed}, labels)
	}
	return &Metrics{
		errors: counters("machine_controller_errors_total", "Errors that are retried, by operation; without conflicts.", "operation"),
		workers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "machine_controller_workers_running", Help: "Passes that are under way.", ConstLabels: fixed,
		}),
		passTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: kind + "_pass_duration_seconds", ConstLabels: fixed,
			Help:    "Time of a pass, writes included, by how it ended: done, requeued, conflict or failed.",
			Buckets: []float64{.0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"result"}),
		undone: prometheus.NewCounter(prometheus.CounterOpts{
			Name: kind + "_undone_writes_total", Help: "Writes that were put off because others undo them.", ConstLabels: fixed,
		}),
		results: counters(kind+"_step_results_total", "Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed.",
			"step", "result"),
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.errors, m.workers, m.passTime, m.results, m.undone}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
}

// Results of passes and steps.
const (
	resultDone       = "done"
	resultRequeued   = "requeued"
	resultStopped    = "stopped"
	resultCheckpoint = "checkpoint"
	resultConflict   = "conflict"
	resultFailed     = "failed"
)

// observer updates Metrics for one Reconciler. A nil observer does nothing.
type observer struct {
	*Metrics

	clock clock.PassiveClock
	steps map[string]string // the values of the label step, by the names of the steps
}

// newObserver creates the series of all steps, so that they exist, with zero, from the start.
func newObserver[P any](m *Metrics, now clock.PassiveClock, steps []Step[P]) *observer {
	if m == nil {
		return nil
	}
	o := &observer{m, now, map[string]string{}}
	m.errors.WithLabelValues("read")
	m.errors.WithLabelValues("write")
	for i := range steps {
		step := strings.ToValidUTF8(steps[i].Name, "?")
		o.steps[steps[i].Name] = step
		m.errors.WithLabelValues(step)
		for _, result := range []string{resultDone, resultStopped, resultCheckpoint, resultConflict, resultFailed} {
			m.results.WithLabelValues(step, result)
		}
	}
	for _, result := range []string{resultDone, resultRequeued, resultConflict, resultFailed} {
		m.passTime.WithLabelValues(result)
	}
	return o
}

// failed counts an operation that failed, unless by a conflict.
func (o *observer) failed(operation string, err error) {
	if o != nil && err != nil && !patch.Retryable(err) {
		o.errors.WithLabelValues(operation).Inc()
	}
}

// works adds to the number of passes that are under way.
func (o *observer) works(passes float64) {
	if o != nil {
		o.workers.Add(passes)
	}
}

// contested counts a write that was put off.
func (o *observer) contested() {
	if o != nil {
		o.undone.Inc()
	}
}

// ran observes a step.
func (o *observer) ran(step string, result Result, err error) {
	if o == nil {
		return
	}
	step, found := o.steps[step]
	if !found { // it is not in the list: a step has run it
		return
	}
	ended := resultDone
	switch {
	case err != nil:
		o.failed(step, err)
		ended = failureResult(err)
	case result.Checkpoint:
		ended = resultCheckpoint
	case result.Stop:
		ended = resultStopped
	}
	o.results.WithLabelValues(step, ended).Inc()
}

func failureResult(err error) string {
	if patch.Retryable(err) {
		return resultConflict
	}
	return resultFailed
}

// passed observes the end of a pass, with all its errors.
func (o *observer) passed(since time.Time, again time.Duration, err error) {
	if o == nil {
		return
	}
	result := resultDone
	switch {
	case err != nil:
		result = failureResult(err)
	case again > 0:
		result = resultRequeued
	}
	o.passTime.WithLabelValues(result).Observe(o.clock.Since(since).Seconds())
}
