package machine

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

// gauged adds gauges that are otherwise counted in caches.
type gauged struct{ *Metrics }

func (g gauged) Collect(to chan<- prometheus.Metric) {
	g.Metrics.Collect(to)
	gauges(to, g.phases, map[string]int{"Running": 1})
	gauges(to, g.machines, map[string]int{"aws": 1})
	gauges(to, g.replicas, map[string]int{"desired": 1})
}

func TestTheDocumentationNamesEveryMetric(t *testing.T) {
	source, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	doc, _, _ := strings.Cut(string(source), "type Metrics struct")
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(gauged{NewMetrics(MetricsOptions{})}))
	families, err := registry.Gather()
	require.NoError(t, err)
	named := 0
	for _, f := range families {
		if len(f.GetMetric()[0].GetLabel()) == 1 { // it is one of pass.Metrics
			continue
		}
		labels := f.GetMetric()[0].GetLabel()
		require.Equal(t, "controller", labels[0].GetName())
		require.Contains(t, doc, fmt.Sprintf("//\t%s{controller,%s}: %s\n//\t\t%s\n",
			f.GetName(), labels[1].GetName(), strings.ToLower(f.GetType().String()), f.GetHelp()))
		named++
	}
	require.Equal(t, strings.Count(doc, "{controller,"), named)
}

func TestNamesFollowTheRulesOfPrometheus(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(gauged{NewMetrics(MetricsOptions{})}))
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	got := []string{}
	for _, p := range problems {
		got = append(got, p.Metric+": "+p.Text)
	}
	want := []string{ // a name that people's dashboards and the page that this project began with have
		`machine_controller_machines_total: non-counter metrics should not have "_total" suffix`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-allowed +found):\n%s", diff)
	}
}

func TestMetricsOfSeveralNamesFitIntoOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(NewMetrics(MetricsOptions{Name: "one"})))
	require.NoError(t, registry.Register(NewMetrics(MetricsOptions{Name: "two"})))
	require.NoError(t, registry.Register(NewMetrics(MetricsOptions{Name: "not UTF-8: \xff"})))
	var already prometheus.AlreadyRegisteredError
	require.ErrorAs(t, registry.Register(NewMetrics(MetricsOptions{Name: "one"})), &already, "two cannot have one name")
	_, err := registry.Gather()
	require.NoError(t, err)
}

// Scrape returns the value, or the count, of every series that is not zero. A histogram's sum is under its name and _sum.
func Scrape(t *testing.T, m prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	set := func(name string, value float64) {
		if value != 0 {
			out[name] = value
		}
	}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			labels := ""
			for _, label := range series.GetLabel() {
				labels += "{" + label.GetName() + "=" + label.GetValue() + "}"
			}
			histogram := series.GetHistogram()
			set(f.GetName()+labels, series.GetCounter().GetValue()+series.GetGauge().GetValue()+float64(histogram.GetSampleCount()))
			set(f.GetName()+"_sum"+labels, histogram.GetSampleSum())
		}
	}
	return out
}
