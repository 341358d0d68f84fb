package machine

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the generated part of the comment of Metrics instead of comparing it")

// The list of metrics is in the comment of type Metrics, behind its heading. It is generated.
const metricsHeading, metricsEnd = "// The metrics:\n//\n", "type Metrics struct"

func TestDocumentationIsCurrent(t *testing.T) {
	const file = "metrics.go"
	old, err := os.ReadFile(file)
	require.NoError(t, err)
	at := bytes.Index(old, []byte(metricsHeading))
	require.Positive(t, at, "no heading %q", metricsHeading)
	body := at + len(metricsHeading)
	length := bytes.Index(old[body:], []byte(metricsEnd))
	require.Positive(t, length)
	current := slices.Concat(old[:body], []byte(metricsText()), old[body+length:])
	if *update {
		require.NoError(t, os.WriteFile(file, current, 0o600))
		return
	}
	if diff := cmp.Diff(string(current), string(old)); diff != "" {
		t.Errorf("%s is not current, run `make generate` (-want +got):\n%s", file, diff)
	}
}

func metricsText() string {
	var text strings.Builder
	for _, m := range metricTable() {
		labels := strings.Join(append([]string{"controller"}, m.labels...), ",")
		fmt.Fprintf(&text, "//\t%s{%s}: %s\n//\t\t%s\n", m.name, labels, m.kind, m.help)
		if m.kind == kindHistogram {
			fmt.Fprintf(&text, "//\t\tBuckets: %s.\n", bucketText(m.buckets))
		}
	}
	return text.String()
}

func bucketText(buckets []float64) string {
	var texts []string
	for _, b := range buckets {
		texts = append(texts, strconv.FormatFloat(b, 'f', -1, 64))
	}
	return strings.Join(texts, " ")
}

// exampleMetrics are Metrics of which every metric has a series.
func exampleMetrics() *Metrics {
	m := NewMetrics(MetricsOptions{})
	newObserver(Options{Metrics: m, Steps: Steps()}.withDefaults(testKind()))
	m.phaseTime.WithLabelValues("Running").Observe(1)
	return m
}

// gauged adds gauges that are otherwise counted in caches.
type gauged struct{ *Metrics }

func (g gauged) Collect(to chan<- prometheus.Metric) {
	g.Metrics.Collect(to)
	gauges(to, g.phases, map[string]int{"Running": 1})
	gauges(to, g.machines, map[string]int{"aws": 1})
	gauges(to, g.replicas, map[string]int{"desired": 1})
}

func TestTheMetricsAreWhatTheTableSays(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(gauged{exampleMetrics()}))
	families, err := registry.Gather()
	require.NoError(t, err)
	type said struct {
		Kind, Help string
		Labels     []string
	}
	got, want := map[string]said{}, map[string]said{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		got[f.GetName()] = said{strings.ToLower(f.GetType().String()), f.GetHelp(), labels}
	}
	for _, m := range metricTable() {
		labels := append([]string{"controller"}, m.labels...)
		slices.Sort(labels)
		want[m.name] = said{m.kind, m.help, labels}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-table +collector):\n%s", diff)
	}
}

func TestNamesFollowTheRulesOfPrometheus(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(gauged{exampleMetrics()}))
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

func TestReconcilersCanShareMetrics(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	one, two := observerOf(m), observerOf(m)
	ran := func(o *observer) { o.ran(StepNode, o.now(), Result{}, nil) }
	ran(one)
	ran(two)
	require.InDelta(t, 2, Scrape(t, m)["machinist_machine_step_results_total{controller=machine}{result=done}{step=node}"], 0)
	one.begin(context.WithoutCancel(t.Context()), &Reconciler{})
	two.begin(context.WithoutCancel(t.Context()), &Reconciler{})
	two.end()
	require.InDelta(t, 1, Scrape(t, m)["machine_controller_workers_running{controller=machine}"], 0)
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
