package guard

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the Prometheus metrics of a Gate and a Collector, a prometheus.Collector. The caller creates them, sets
// them in the options and registers them. Nil Metrics count nothing. Safe for concurrent use. No label names an object.
//
//	machinist_safety_frozen_servers: gauge
//		API servers that have not answered for the tolerance, without those of clusters that are being made.
//	machinist_safety_orphan_instances{driver}: gauge
//		Instances without a Machine, in the last pass that decided.
//	machinist_safety_orphan_passes_total{driver,result}: counter
//		Passes that look for instances without a Machine: done, blocked or failed.
type Metrics struct {
	registry *prometheus.Registry
	orphans  *prometheus.GaugeVec
	passes   *prometheus.CounterVec
	servers  prometheus.Gauge
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics without values.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	made := promauto.With(m.registry)
	gauge := func(name, help string) prometheus.GaugeOpts { return prometheus.GaugeOpts{Name: name, Help: help} }
	m.servers = made.NewGauge(gauge("machinist_safety_frozen_servers",
		"API servers that have not answered for the tolerance, without those of clusters that are being made."))
	m.orphans = made.NewGaugeVec(gauge("machinist_safety_orphan_instances", "Instances without a Machine, in the last pass that decided."),
		[]string{"driver"})
	m.passes = made.NewCounterVec(prometheus.CounterOpts{Name: "machinist_safety_orphan_passes_total",
		Help: "Passes that look for instances without a Machine: done, blocked or failed."}, []string{"driver", "result"})
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) { m.registry.Collect(to) }

// reached records how many API servers are frozen.
func (m *Metrics) reached(frozen int) {
	if m != nil {
		m.servers.Set(float64(frozen))
	}
}

// looked records a pass of a Collector.
func (m *Metrics) looked(driver string, r Report, err error) {
	if m == nil {
		return
	}
	result := "done"
	switch {
	case err != nil:
		result = "failed"
	case len(r.Blocked) > 0:
		result = "blocked"
	}
	m.passes.WithLabelValues(driver, result).Inc()
	if r.Blocked[""] == "" {
		m.orphans.WithLabelValues(driver).Set(float64(len(r.Orphans)))
	}
}
