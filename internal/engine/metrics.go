package engine

import (
	"cmp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/machinist-dev/machinist/internal/patch"
)

// Metrics are the Prometheus metrics of the passes of Reconcilers of one kind, a prometheus.Collector. The caller creates them, sets them
// in the Options of a Reconciler and registers them; nothing registers itself:
//
//	metrics := pass.NewMetrics(pass.MetricsOptions{Kind: "MachineSet"})
//	err := registry.Register(metrics) // controller-runtime's metrics.Registry, or any other
//	options.Metrics = metrics
//
// machine.Metrics include these metrics for Machines. Several Reconcilers can share one Metrics, which adds their values; or each has its
// own, with a unique MetricsOptions.Name, and all can be in one registry. Nil Metrics count nothing and cost nothing. Safe for concurrent
// use.
//
// No label names an object, and every label has a bounded set of values: steps are named, and an operation is a step, or read or write of
// the object itself. The durations of passes are in controller_runtime_reconcile_time_seconds, and those of steps in the execution trace.
//
// The metrics, where KIND is the kind in lower case:
//
//	machine_controller_errors_total{controller,operation}: counter
//		Errors that are retried, by operation; without conflicts.
//	machine_controller_workers_running{controller}: gauge
//		Passes that are under way.
//	machinist_KIND_step_results_total{controller,result,step}: counter
//		Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed.
//	machinist_KIND_undone_writes_total{controller}: counter
//		Writes that were put off because others undo them.
type Metrics struct {
	registry        *prometheus.Registry
	errors, results *prometheus.CounterVec
	workers         prometheus.Gauge
	undone          prometheus.Counter
}

var _ prometheus.Collector = (*Metrics)(nil)

// MetricsOptions configure Metrics.
type MetricsOptions struct {
	// Kind is part of the metrics' names, such as MachineSet. It is required.
	Kind string
	// Name is the value of the label controller on every series, so that several Metrics can be in one registry. Default: the kind in lower
	// case, as Options.Name; with that, the label has the value of controller-runtime's own metrics.
	Name string
}

// Labels returns the constant labels of the metrics.
func (o MetricsOptions) Labels() prometheus.Labels {
	return prometheus.Labels{"controller": label(cmp.Or(o.Name, strings.ToLower(o.Kind)))}
}

// NewMetrics returns metrics without values for the Options of a kind's Reconciler.
func NewMetrics(o MetricsOptions) *Metrics {
	fixed, kind, registry := o.Labels(), "machinist_"+strings.ToLower(o.Kind), prometheus.NewRegistry()
	made := promauto.With(registry)
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help, ConstLabels: fixed}
	}
	return &Metrics{
		registry: registry,
		errors: made.NewCounterVec(counter("machine_controller_errors_total", "Errors that are retried, by operation; without conflicts."),
			[]string{"operation"}),
		workers: made.NewGauge(prometheus.GaugeOpts{
			Name: "machine_controller_workers_running", Help: "Passes that are under way.", ConstLabels: fixed,
		}),
		undone: made.NewCounter(counter(kind+"_undone_writes_total", "Writes that were put off because others undo them.")),
		results: made.NewCounterVec(counter(kind+"_step_results_total",
			"Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed."), []string{"step", "result"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) { m.registry.Collect(to) }

// Results of steps.
const (
	resultDone       = "done"
	resultStopped    = "stopped"
	resultCheckpoint = "checkpoint"
	resultConflict   = "conflict"
	resultFailed     = "failed"
)

// watch creates the series of all steps, so that they exist, with zero, from the start.
func watch[P any](m *Metrics, steps []Step[P]) {
	if m == nil {
		return
	}
	m.errors.WithLabelValues("read")
	m.errors.WithLabelValues("write")
	for i := range steps {
		step := label(steps[i].Name)
		m.errors.WithLabelValues(step)
		for _, result := range []string{resultDone, resultStopped, resultCheckpoint, resultConflict, resultFailed} {
			m.results.WithLabelValues(step, result)
		}
	}
}

// label returns a text as the value of a label.
func label(text string) string { return strings.ToValidUTF8(text, "?") }

// failed counts an operation that failed, except for conflicts.
func (m *Metrics) failed(operation string, err error) {
	if m != nil && err != nil && !patch.Retryable(err) {
		m.errors.WithLabelValues(operation).Inc()
	}
}

// works adds to the number of passes in progress.
func (m *Metrics) works(passes float64) {
	if m != nil {
		m.workers.Add(passes)
	}
}

// contested counts a write that was delayed.
func (m *Metrics) contested() {
	if m != nil {
		m.undone.Inc()
	}
}

// ran counts a step.
func (m *Metrics) ran(step string, result Result, err error) {
	if m == nil {
		return
	}
	step = label(step)
	m.failed(step, err)
	ended := resultDone
	switch {
	case err != nil && patch.Retryable(err):
		ended = resultConflict
	case err != nil:
		ended = resultFailed
	case result.Checkpoint:
		ended = resultCheckpoint
	case result.Stop:
		ended = resultStopped
	}
	m.results.WithLabelValues(step, ended).Inc()
}
