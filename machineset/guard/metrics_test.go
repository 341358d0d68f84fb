package guard_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machineset/guard"
)

// gathered returns the values of metrics, by name and labels.
func gathered(t *testing.T, m *guard.Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			key := []string{family.GetName()}
			for _, label := range one.GetLabel() {
				key = append(key, label.GetValue())
			}
			all[strings.Join(key, " ")] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
		}
	}
	return all
}
