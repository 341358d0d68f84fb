package deployment_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/fake"
)

// Writes that are put off because others undo them are counted.
func TestUndoneWrites(t *testing.T) {
	t.Parallel()
	t.Run("a rollout of 200 Machines has none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).live()
		w.run()
		d := w.deployment(200, fake.WithField("25%", "spec", "rollout", "strategy", "rollingUpdate", "maxSurge"))
		w.rolled(d, "blue", 200)
		w.change(d, template("green"))
		w.rolled(d, "green", 200)
		require.Equal(t, map[string]float64{"machinist_machinedeployment_undone_writes_total": 0, "machinist_machineset_undone_writes_total": 0},
			w.undone())
	})
}

// undone returns the counters of writes that were put off.
func (w *world) undone() map[string]float64 {
	w.t.Helper()
	counts := map[string]float64{}
	for _, m := range w.metrics {
		registry := prometheus.NewPedanticRegistry()
		require.NoError(w.t, registry.Register(m))
		families, err := registry.Gather()
		require.NoError(w.t, err)
		for _, f := range families {
			if strings.HasSuffix(f.GetName(), "_undone_writes_total") {
				counts[f.GetName()] += f.GetMetric()[0].GetCounter().GetValue()
			}
		}
	}
	return counts
}
