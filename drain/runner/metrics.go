package runner

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/machinist-dev/machinist/drain"
)

const (
	resultDrained  = "drained"
	resultReleased = "released" // the Node was released, cancelled or replaced before it was drained
)

// Metrics are the Prometheus metrics of Runners. No label names an object, and every label has a limited set of values. Metrics implements
// prometheus.Collector; the caller registers it. Several Runners may share one; their values are added. A nil Metrics counts nothing. It is
// safe for concurrent use.
//
//	machinist_drain_evictions_total{class}: counter
//		Eviction requests that were answered, by what the answer means.
//	machinist_drain_duration_seconds{result}: histogram
//		Time from the first look at a Node until it was drained or released.
type Metrics struct {
	evictions *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics without values for Config.Metrics.
func NewMetrics() *Metrics {
	const prefix = "machinist_drain_"
	return &Metrics{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "evictions_total", Help: "Eviction requests that were answered, by what the answer means.",
		}, []string{"class"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "duration_seconds", Help: "Time from the first look at a Node until it was drained or released.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400},
		}, []string{"result"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.evictions.Describe(to)
	m.durations.Describe(to)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.evictions.Collect(to)
	m.durations.Collect(to)
}

func (m *Metrics) answered(class drain.Reason) {
	if m != nil {
		m.evictions.WithLabelValues(string(class)).Inc()
	}
}

func (m *Metrics) drained(after time.Duration, result string) {
	if m != nil {
		m.durations.WithLabelValues(result).Observe(after.Seconds())
	}
}
