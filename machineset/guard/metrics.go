package guard

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the Prometheus metrics of a Freezer, a Gate and a Collector, a prometheus.Collector. The caller creates them, sets
// them in the options and registers them. Nil Metrics count nothing. Safe for concurrent use. No label names an object.
//
//	machinist_safety_frozen_objects{kind}: gauge
//		Sets and deployments that are frozen.
//	machinist_safety_freezes_total{kind}: counter
//		Freezes of sets and deployments.
//	machinist_safety_frozen_servers: gauge
//		API servers that have not answered for the tolerance, without those of clusters that are being made.
//	mcm_machine_controller_frozen: gauge
//		1 while reconcilers are frozen because an API server does not answer. The name is Gardener's.
//	machinist_safety_orphan_instances{driver}: gauge
//		Instances without a Machine, in the last pass that decided.
//	machinist_safety_orphan_deletions_total{driver,result}: counter
//		Deletions of instances without a Machine: requested or failed.
//	machinist_safety_orphan_passes_total{driver,result}: counter
//		Passes that look for instances without a Machine: done, blocked or failed.
type Metrics struct {
	registry                   *prometheus.Registry
	frozen, orphans            *prometheus.GaugeVec
	freezes, deletions, passes *prometheus.CounterVec
	servers, controllers       prometheus.Gauge

	mu     sync.Mutex
	stands map[string]map[types.NamespacedName]bool
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics without values.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), stands: map[string]map[types.NamespacedName]bool{}}
	made := promauto.With(m.registry)
	gauge := func(name, help string) prometheus.GaugeOpts { return prometheus.GaugeOpts{Name: name, Help: help} }
	count := func(name, help string) prometheus.CounterOpts { return prometheus.CounterOpts{Name: name, Help: help} }
	m.frozen = made.NewGaugeVec(gauge("machinist_safety_frozen_objects", "Sets and deployments that are frozen."), []string{"kind"})
	m.freezes = made.NewCounterVec(count("machinist_safety_freezes_total", "Freezes of sets and deployments."), []string{"kind"})
	m.servers = made.NewGauge(gauge("machinist_safety_frozen_servers",
		"API servers that have not answered for the tolerance, without those of clusters that are being made."))
	m.controllers = made.NewGauge(gauge("mcm_machine_controller_frozen",
		"1 while reconcilers are frozen because an API server does not answer. The name is Gardener's."))
	m.orphans = made.NewGaugeVec(gauge("machinist_safety_orphan_instances", "Instances without a Machine, in the last pass that decided."),
		[]string{"driver"})
	m.deletions = made.NewCounterVec(count("machinist_safety_orphan_deletions_total",
		"Deletions of instances without a Machine: requested or failed."),
		[]string{"driver", "result"})
	m.passes = made.NewCounterVec(count("machinist_safety_orphan_passes_total",
		"Passes that look for instances without a Machine: done, blocked or failed."),
		[]string{"driver", "result"})
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) { m.registry.Collect(to) }

// froze records whether an object is frozen, and whether it has become so.
func (m *Metrics) froze(kind string, key types.NamespacedName, is, now bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stands[kind] == nil {
		m.stands[kind] = map[types.NamespacedName]bool{}
	}
	if is {
		m.stands[kind][key] = true
	} else {
		delete(m.stands[kind], key)
	}
	m.frozen.WithLabelValues(kind).Set(float64(len(m.stands[kind])))
	counter := m.freezes.WithLabelValues(kind)
	if now {
		counter.Inc()
	}
}

// reached records how many API servers are frozen.
func (m *Metrics) reached(frozen int) {
	if m != nil {
		m.servers.Set(float64(frozen))
		m.controllers.Set(float64(min(frozen, 1)))
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

// deleted records a deletion.
func (m *Metrics) deleted(driver string, err error) {
	if m == nil {
		return
	}
	result := "requested"
	if err != nil {
		result = "failed"
	}
	m.deletions.WithLabelValues(driver, result).Inc()
}
