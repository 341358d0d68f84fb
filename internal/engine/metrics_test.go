package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func metricSteps(names ...string) []Step[int] {
	var steps []Step[int]
	for _, name := range names {
		steps = append(steps, Step[int]{Name: name, On: InBoth, Run: func(context.Context, int) (Result, error) { return Result{}, nil }})
	}
	return steps
}

// scraped returns the value, or the count, of every series, by its name and the values of its labels but the controller.
func scraped(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			name := f.GetName()
			for _, label := range series.GetLabel()[1:] { // they are sorted
				name += " " + label.GetValue()
			}
			values[name] = series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return values
}

func TestMetricsAreThoseOfTheDocumentation(t *testing.T) {
	m := NewMetrics(MetricsOptions{Kind: "MachineSet"})
	watch(m, metricSteps("one"))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	source, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	doc, _, _ := strings.Cut(string(source), "type Metrics struct")
	require.Len(t, families, strings.Count(doc, "{controller"))
	for _, f := range families {
		var labels []string
		for _, label := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		name := strings.Replace(f.GetName(), "machinist_machineset_", "machinist_KIND_", 1)
		text := fmt.Sprintf("//\t%s{%s}: %s\n//\t\t%s\n", name, strings.Join(labels, ","), strings.ToLower(f.GetType().String()), f.GetHelp())
		require.Contains(t, doc, text)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestMetricsOfSeveralKindsAndNamesFitIntoOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, o := range []MetricsOptions{
		{Kind: "Machine"}, {Kind: "MachineSet"}, {Kind: "MachineSet", Name: "other"}, {Kind: "MachineSet", Name: "not UTF-8: \xff"},
	} {
		require.NoError(t, registry.Register(NewMetrics(o)))
	}
	var already prometheus.AlreadyRegisteredError
	require.ErrorAs(t, registry.Register(NewMetrics(MetricsOptions{Kind: "MachineSet"})), &already, "two cannot have one name")
}

func TestReconcilersCanShareMetrics(t *testing.T) {
	m := NewMetrics(MetricsOptions{Kind: "MachineSet"})
	watch(m, metricSteps("one"))
	watch(m, metricSteps("one", "two"))
	m.ran("one", Result{}, nil)
	m.ran("one", Result{}, nil)
	require.InDelta(t, 2, scraped(t, m)["machinist_machineset_step_results_total done one"], 0)
	m.works(1)
	m.works(1)
	m.works(-1)
	require.InDelta(t, 1, scraped(t, m)["machine_controller_workers_running"], 0)
}

func TestFailuresAreCountedByTheirOperation(t *testing.T) {
	m := NewMetrics(MetricsOptions{Kind: "MachineSet"})
	watch(m, metricSteps("one"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machinesets"}, "s1", errors.New("it has changed"))
	m.failed("read", errors.New("no connection"))
	m.failed("write", nil)
	m.failed("write", conflict)
	m.failed("write", errors.New("no connection"))
	m.ran("one", Result{}, conflict)
	m.ran("one", Result{}, errors.New("boom"))
	require.InDelta(t, 1, scraped(t, m)["machine_controller_errors_total read"], 0)
	require.InDelta(t, 1, scraped(t, m)["machine_controller_errors_total write"], 0)
	require.InDelta(t, 1, scraped(t, m)["machine_controller_errors_total one"], 0)
	for _, result := range []string{resultConflict, resultFailed} {
		require.InDelta(t, 1, scraped(t, m)["machinist_machineset_step_results_total "+result+" one"], 0)
	}
}

func TestASteadyPassIsCountedWithoutAllocations(t *testing.T) {
	with := NewMetrics(MetricsOptions{Kind: "MachineSet"})
	watch(with, metricSteps("one", "two"))
	for name, m := range map[string]*Metrics{"nil": nil, "metrics": with} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			m.works(1)
			m.ran("one", Result{}, nil)
			m.ran("two", Result{Stop: true}, nil)
			m.works(-1)
		}), name)
	}
}
