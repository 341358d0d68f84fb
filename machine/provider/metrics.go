package provider

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// Metrics are the Prometheus metrics of the calls to one Driver, a prometheus.Collector. The caller creates them, passes Decorator to Of
// and registers them. Safe for concurrent use.
//
// No label names an object. The metrics:
//
//	machine_controller_errors_total{controller,operation}: counter
//		Errors that are retried, by operation; without conflicts.
//	machinist_driver_call_duration_seconds{driver,operation,class}: histogram
//		Time of a call to a provider, by the class of its error, OK without.
//		Buckets: 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 120 300.
//	machinist_driver_delayed_calls_total{driver,operation}: counter
//		Calls that were not made yet, to keep to a rate.
//
// The label controller of the first metric is the name of the Driver, because reconcilers have a metric of the same name.
type Metrics struct {
	errors, delayed *prometheus.CounterVec
	took            *prometheus.HistogramVec
	clock           clock.PassiveClock
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics without values for a Driver.
func NewMetrics(driver string) *Metrics {
	driver = strings.ToValidUTF8(driver, "?")
	of := prometheus.Labels{"driver": driver}
	return &Metrics{
		clock: clock.RealClock{},
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "machine_controller_errors_total", Help: "Errors that are retried, by operation; without conflicts.",
			ConstLabels: prometheus.Labels{"controller": driver},
		}, []string{"operation"}),
		delayed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "machinist_driver_delayed_calls_total", Help: "Calls that were not made yet, to keep to a rate.", ConstLabels: of,
		}, []string{"operation"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "machinist_driver_call_duration_seconds", Help: "Time of a call to a provider, by the class of its error, OK without.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}, ConstLabels: of,
		}, []string{"operation", "class"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.errors.Describe(to)
	m.took.Describe(to)
	m.delayed.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.errors.Collect(to)
	m.took.Collect(to)
	m.delayed.Collect(to)
}

// Decorator returns a Decorator that counts and times calls. An instance that does not exist is not an error of Get. Pass it to Of before a
// RateLimit to time the Driver, or behind it to count the delays.
func (m *Metrics) Decorator() Decorator {
	return Around(func(ctx context.Context, op Operation, _ *Request, call func(context.Context) error) error {
		began := m.clock.Now()
		err := call(ctx)
		if IsDelayed(err) {
			m.delayed.WithLabelValues(string(op)).Inc()
			return err
		}
		class := ClassOf(err)
		label := string(cmp.Or(class, "OK"))
		if err != nil && !slices.Contains([]Class{NotFound, Invalid, Exhausted, RateLimited, Unauthenticated, Unavailable, Terminal}, class) {
			label = "other" // the values of the label are bounded
		}
		m.took.WithLabelValues(string(op), label).Observe(m.clock.Since(began).Seconds())
		if err != nil && (op != OpGet || class != NotFound) {
			m.errors.WithLabelValues(string(op)).Inc()
		}
		return err
	})
}
