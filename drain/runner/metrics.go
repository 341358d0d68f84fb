package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/machinist-dev/machinist/drain"
)

const (
	resultDrained  = "drained"
	resultReleased = "released" // the Node was released, cancelled or replaced before it was drained
	otherReason    = "Other"    // the own reasons of rules, whose number is not limited
)

// Metrics are the Prometheus metrics of Runners. No label names an object, and every label has a limited set of values. Metrics implements
// prometheus.Collector; the caller registers it. Several Runners may share one; their values are added. Gauges are computed when they are
// scraped, for Runners between Start and its end. A nil Metrics counts nothing. It is safe for concurrent use.
//
//	machinist_drain_evictions_total{class}: counter
//		Eviction requests that were answered, by what the answer means.
//	machinist_drain_duration_seconds{result}: histogram
//		Time from the first look at a Node until it was drained or released.
//	machinist_drain_blocked_pods{reason}: gauge
//		Pods of draining Nodes that cannot go, by the reason that keeps them.
type Metrics struct {
	evictions *prometheus.CounterVec
	durations *prometheus.HistogramVec
	blocked   *prometheus.Desc

	mu      sync.Mutex
	runners map[*Runner]struct{}
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
		blocked: prometheus.NewDesc(prefix+"blocked_pods",
			"Pods of draining Nodes that cannot go, by the reason that keeps them.", []string{"reason"}, nil),
		runners: map[*Runner]struct{}{},
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.evictions.Describe(to)
	m.durations.Describe(to)
	to <- m.blocked
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.evictions.Collect(to)
	m.durations.Collect(to)
	for reason, pods := range m.now() {
		metric, err := prometheus.NewConstMetric(m.blocked, prometheus.GaugeValue, float64(pods), reason)
		if err != nil {
			metric = prometheus.NewInvalidMetric(m.blocked, err)
		}
		to <- metric
	}
}

// now returns the blocked Pods of all Runners.
func (m *Metrics) now() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	blocked := map[string]int{}
	for r := range m.runners {
		r.mu.Lock()
		for _, ns := range r.nodes {
			for reason, pods := range ns.progress.blocked {
				blocked[reasonLabel(reason)] += pods
			}
		}
		r.mu.Unlock()
	}
	return blocked
}

// reasonLabel returns the label of a reason. Only reasons of package drain have their own label.
func reasonLabel(reason drain.Reason) string {
	if slices.Contains(knownReasons(), reason) {
		return string(reason)
	}
	return otherReason
}

// knownReasons are the reasons of blocked Pods.
func knownReasons() []drain.Reason {
	return []drain.Reason{
		drain.ReasonRuleFailed, drain.ReasonNoVerdict, drain.ReasonBudgetExhausted, drain.ReasonBudgetStale,
		drain.ReasonBudgetNeverAllows, drain.ReasonMultipleBudgets, drain.ReasonForbidden, drain.ReasonAdmissionDenied,
		drain.ReasonNamespaceTerminating,
		drain.ReasonThrottled, drain.ReasonServerError, drain.ReasonUnknownOutcome, drain.ReasonUnauthorized, drain.ReasonInvalid,
		drain.ReasonEndpointMissing, drain.ReasonConflict, drain.ReasonRespawned,
	}
}

func (m *Metrics) answered(class drain.Class) {
	if m != nil {
		m.evictions.WithLabelValues(class.String()).Inc()
	}
}

func (m *Metrics) drained(after time.Duration, result string) {
	if m != nil {
		m.durations.WithLabelValues(result).Observe(after.Seconds())
	}
}

// cover adds a Runner to the gauges until the returned function is called.
func (m *Metrics) cover(r *Runner) (end func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runners[r] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.runners, r)
	}
}
