package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
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
			values[name] = series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestMetricsAreThoseOfTheDocumentation(t *testing.T) {
	m := NewMetrics(MetricsOptions{Kind: "MachineSet"})
	newObserver(m, clocktesting.NewFakePassiveClock(time.Time{}), metricSteps("one"))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	source, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	doc, _, _ := strings.Cut(string(source), "type Metrics struct")
	table := metricTable()
	require.Len(t, families, len(table))
	for _, f := range families {
		name := strings.Replace(f.GetName(), "machinist_machineset_", "machinist_KIND_", 1)
		at := slices.IndexFunc(table[:], func(m metric) bool { return m.name == name })
		require.GreaterOrEqual(t, at, 0, name)
		labels := strings.Join(append([]string{"controller"}, table[at].labels...), ",")
		text := fmt.Sprintf("//\t%s{%s}: %s\n//\t\t%s\n", name, labels, strings.ToLower(f.GetType().String()), f.GetHelp())
		if table[at].buckets != nil {
			text += fmt.Sprintf("//\t\tBuckets: %s.\n", strings.Trim(fmt.Sprint(table[at].buckets), "[]"))
		}
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
	m, now := NewMetrics(MetricsOptions{Kind: "MachineSet"}), clocktesting.NewFakePassiveClock(time.Time{})
	one, two := newObserver(m, now, metricSteps("one")), newObserver(m, now, metricSteps("one", "two"))
	one.ran("one", now.Now(), Result{}, nil)
	two.ran("one", now.Now(), Result{}, nil)
	two.ran("a step of a step", now.Now(), Result{}, nil)
	require.InDelta(t, 2, scraped(t, m)["machinist_machineset_step_results_total done one"], 0)
	one.works(1)
	two.works(1)
	two.works(-1)
	require.InDelta(t, 1, scraped(t, m)["machine_controller_workers_running"], 0)
}

func TestPassesAndFailuresAreCountedByHowTheyEnd(t *testing.T) {
	m, now := NewMetrics(MetricsOptions{Kind: "MachineSet"}), clocktesting.NewFakePassiveClock(time.Time{})
	o := newObserver(m, now, metricSteps("one"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machinesets"}, "s1", errors.New("it has changed"))
	o.unread()
	o.unwritten(nil)
	o.unwritten(conflict)
	o.unwritten(errors.New("no connection"))
	o.passed(now.Now(), 0, nil)
	o.passed(now.Now(), time.Second, nil)
	o.passed(now.Now(), time.Second, conflict)
	o.passed(now.Now(), 0, errors.New("boom"))
	require.InDelta(t, 1, scraped(t, m)["machine_controller_errors_total read"], 0)
	require.InDelta(t, 1, scraped(t, m)["machine_controller_errors_total write"], 0)
	require.InDelta(t, 1, scraped(t, m)["machinist_machineset_conflicts_total write"], 0)
	for _, result := range []string{resultDone, resultRequeued, resultConflict, resultFailed} {
		require.InDelta(t, 1, scraped(t, m)["machinist_machineset_pass_duration_seconds "+result], 0)
	}
}

func TestASteadyPassIsCountedWithoutAllocations(t *testing.T) {
	m, now := NewMetrics(MetricsOptions{Kind: "MachineSet"}), clocktesting.NewFakePassiveClock(time.Time{})
	for name, o := range map[string]*observer{"nil": nil, "metrics": newObserver(m, now, metricSteps("one", "two"))} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			o.works(1)
			o.ran("one", o.now(), Result{}, nil)
			o.ran("two", o.now(), Result{Stop: true}, nil)
			o.passed(time.Time{}, 0, nil)
			o.works(-1)
		}), name)
	}
}
