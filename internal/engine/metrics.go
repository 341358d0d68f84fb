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
// read or write of the object itself.
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
//	machinist_KIND_step_duration_seconds{controller,step}: histogram
//		Time that a step took for one object.
//		Buckets: 0.0001 0.0005 0.001 0.005 0.01 0.05 0.1 0.5 1 5 10.
//	machinist_KIND_step_results_total{controller,step,result}: counter
//		Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed.
//	machinist_KIND_conflicts_total{controller,operation}: counter
//		Writes that were rejected because the object had changed since it was read, by the step, or write of the object itself.
type Metrics struct {
	errors, conflicts, results *prometheus.CounterVec
	passTime, stepTime         *prometheus.HistogramVec
	workers                    prometheus.Gauge
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

// metric describes one metric. The collector and the list in the documentation are made from these. KIND in a name stands for the kind.
type metric struct {
	name, help string
	labels     []string
	buckets    []float64 // of a histogram, in seconds
}

// The metrics, in the order of the documentation. The names of the first two come from the requirements of this project.
const (
	metricErrors = iota
	metricWorkers
	metricPassTime
	metricStepTime
	metricResults
	metricConflicts
	metricCount
)

func metricTable() [metricCount]metric {
	return [metricCount]metric{
		metricErrors: {
			name: "machine_controller_errors_total", labels: []string{"operation"},
			help: "Errors that are retried, by operation; without conflicts.",
		},
		metricWorkers: {name: "machine_controller_workers_running", help: "Passes that are under way."},
		metricPassTime: {
			name: "machinist_KIND_pass_duration_seconds", labels: []string{"result"},
			help:    "Time of a pass, writes included, by how it ended: done, requeued, conflict or failed.",
			buckets: []float64{.0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		},
		metricStepTime: {
			name: "machinist_KIND_step_duration_seconds", labels: []string{"step"},
			help:    "Time that a step took for one object.",
			buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10},
		},
		metricResults: {
			name: "machinist_KIND_step_results_total", labels: []string{"step", "result"},
			help: "Steps by how they ended: done, stopped (the pass), checkpoint, conflict or failed.",
		},
		metricConflicts: {
			name: "machinist_KIND_conflicts_total", labels: []string{"operation"},
			help: "Writes that were rejected because the object had changed since it was read, by the step, or write of the object itself.",
		},
	}
}

// NewMetrics returns metrics without values for the Options of a kind's Reconciler.
func NewMetrics(o MetricsOptions) *Metrics {
	fixed, table := o.Labels(), metricTable()
	named := func(m metric) string { return strings.ReplaceAll(m.name, "KIND", strings.ToLower(o.Kind)) }
	counters := func(m metric) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: named(m), Help: m.help, ConstLabels: fixed}, m.labels)
	}
	histograms := func(m metric) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: named(m), Help: m.help, ConstLabels: fixed, Buckets: m.buckets}, m.labels)
	}
	workers := table[metricWorkers]
	return &Metrics{
		errors: counters(table[metricErrors]), conflicts: counters(table[metricConflicts]), results: counters(table[metricResults]),
		passTime: histograms(table[metricPassTime]), stepTime: histograms(table[metricStepTime]),
		workers: prometheus.NewGauge(prometheus.GaugeOpts{Name: named(workers), Help: workers.help, ConstLabels: fixed}),
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.errors, m.workers, m.passTime, m.stepTime, m.results, m.conflicts}
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
	operations := []string{"write"}
	for i := range steps {
		step := strings.ToValidUTF8(steps[i].Name, "?")
		o.steps[steps[i].Name] = step
		operations = append(operations, step)
		m.stepTime.WithLabelValues(step)
		for _, result := range []string{resultDone, resultStopped, resultCheckpoint, resultConflict, resultFailed} {
			m.results.WithLabelValues(step, result)
		}
	}
	for _, operation := range operations {
		m.errors.WithLabelValues(operation)
		m.conflicts.WithLabelValues(operation)
	}
	for _, result := range []string{resultDone, resultRequeued, resultConflict, resultFailed} {
		m.passTime.WithLabelValues(result)
	}
	return o
}

// count counts a failed operation, and returns how it failed.
func (o *observer) count(operation string, err error) string {
	result := failureResult(err)
	if result == resultConflict {
		o.conflicts.WithLabelValues(operation).Inc()
	} else {
		o.errors.WithLabelValues(operation).Inc()
	}
	return result
}

// works adds to the number of passes that are under way.
func (o *observer) works(passes float64) {
	if o != nil {
		o.workers.Add(passes)
	}
}

// unread counts an object that could not be read.
func (o *observer) unread() {
	if o != nil {
		o.errors.WithLabelValues("read").Inc()
	}
}

// now returns the time, zero for a nil observer.
func (o *observer) now() time.Time {
	if o == nil {
		return time.Time{}
	}
	return o.clock.Now()
}

// ran observes a step that began at a time.
func (o *observer) ran(step string, since time.Time, result Result, err error) {
	if o == nil {
		return
	}
	step, found := o.steps[step]
	if !found { // it is not in the list: a step has run it
		return
	}
	o.stepTime.WithLabelValues(step).Observe(o.clock.Since(since).Seconds())
	ended := resultDone
	switch {
	case err != nil:
		ended = o.count(step, err)
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

// unwritten counts an object that could not be written.
func (o *observer) unwritten(err error) {
	if o != nil && err != nil {
		o.count("write", err)
	}
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
