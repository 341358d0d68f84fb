package runner

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts the answered eviction requests of Runners, by the meaning of the response. The label names no object and has a limited set
// of values. The caller registers it. Several Runners may share one.
//
//	machinist_drain_evictions_total{class}: counter
type Metrics = prometheus.CounterVec

// NewMetrics returns metrics without values for Config.Metrics.
func NewMetrics() *Metrics {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "machinist_drain_evictions_total", Help: "Eviction requests that were answered, by what the answer means.",
	}, []string{"class"})
}
