package machine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func testKind() contract.Kind {
	return contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
		contract.LayoutsOf(contract.V1Beta2).Machine)
}

func TestTheProviderIsTheInfrastructureOrTheSchemeOfTheProviderID(t *testing.T) {
	infrastructure := contract.MachineState{
		MachineSpec: contract.MachineSpec{Infrastructure: contract.Ref{Kind: "AWSMachine", Name: "m1"}, ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "AWSMachine", providerOf(&infrastructure))
	class := contract.MachineState{
		MachineSpec: contract.MachineSpec{Provider: contract.ProviderSpec{Class: contract.Ref{Kind: "MachineClass", Name: "c1"}},
			ProviderID: "aws:///eu-1/i-1"}}
	require.Equal(t, "aws", providerOf(&class))
	oracle := contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "ocid1.instance.oc1.phx.abc"}}
	require.Empty(t, providerOf(&oracle), "it would name an object")
}

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
	require.Empty(t, cmp.Diff(want, got), "problems (-allowed +found)")
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

// listed is a cache of a fixed list.
type listed struct {
	cache.Cache

	objects  []runtime.Object
	unsynced bool
	missing  error // of the kind
}

type informer struct {
	cache.Informer

	synced bool
}

func (i informer) HasSynced() bool { return i.synced }

func (l *listed) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{synced: !l.unsynced}, l.missing
}

func (l *listed) List(_ context.Context, into client.ObjectList, o ...client.ListOption) error {
	var options client.ListOptions
	if options.ApplyOptions(o); options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy {
		return fmt.Errorf("a scrape copies objects: %+v", options)
	}
	return meta.SetList(into, l.objects)
}

func machinesInCache(n int) *listed {
	l := &listed{}
	for i := range n {
		l.objects = append(l.objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
			"metadata": map[string]any{"namespace": "default", "name": fmt.Sprint("m", i), "uid": fmt.Sprint(i), "labels": map[string]any{
				contract.WatchFilterLabel: "ours", contract.ClusterNameLabel: "demo"}},
			"spec": map[string]any{"clusterName": "demo", "providerID": fmt.Sprintf("aws:///eu-1/i-%d", i),
				"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": fmt.Sprint("m", i)}},
			"status": map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": fmt.Sprint("m", i)}, "conditions": conditionsInCache()},
		}})
	}
	return l
}

func conditionsInCache() []any {
	var all []any
	for _, kind := range []string{
		contract.ConditionAvailable, contract.ConditionReady, contract.ConditionUpToDate, contract.ConditionBootstrapConfigReady,
		contract.ConditionInfrastructureReady,
		ConditionNodeHealthy, contract.ConditionNodeReady, contract.ConditionUpdating, contract.ConditionPaused, contract.ConditionDeleting,
	} {
		all = append(all, map[string]any{"type": kind, "status": "True", "reason": "Because", "message": "", "observedGeneration": int64(2),
			"lastTransitionTime": "2026-01-02T12:00:00Z"})
	}
	return all
}

// counting returns Metrics that count what is in a cache.
func counting(o MetricsOptions, filter string, caches ...*listed) *Metrics {
	m := NewMetrics(o)
	for _, c := range caches {
		m.activate(testReconciler(testKind(), Ports{Ports: engine.Ports{Cache: c}}, Options{Options: engine.Options{WatchFilter: filter}}))
	}
	return m
}

func TestMachinesAreCountedByPhaseAndProvider(t *testing.T) {
	c := machinesInCache(5)
	set := func(i int, value any, path ...string) {
		require.NoError(t, unstructured.SetNestedField(c.objects[i].(*unstructured.Unstructured).Object, value, path...))
	}
	set(0, "Pending", "status", "phase")
	set(1, "", "status", "phase")
	set(2, int64(7), "status", "phase")
	set(3, "theirs", "metadata", "labels", contract.WatchFilterLabel)
	got := Scrape(t, counting(MetricsOptions{Name: "x"}, "ours", c))
	want := map[string]float64{
		"machinist_machines{controller=x}{phase=Pending}": 1, "machinist_machines{controller=x}{phase=none}": 1,
		"machinist_machines{controller=x}{phase=unreadable}": 1, "machinist_machines{controller=x}{phase=Running}": 1,
		"machine_controller_machines_total{controller=x}{provider=AWSMachine}": 3,
		"machine_controller_machines_total{controller=x}{provider=none}":       1,
	}
	require.Empty(t, cmp.Diff(want, got))
}

func TestTheCallerCanSayWhatTheProviderIs(t *testing.T) {
	got := Scrape(t, counting(MetricsOptions{Provider: func(*contract.MachineState) string { return "aws" }}, "",
		machinesInCache(3), machinesInCache(4)))
	require.InDelta(t, 7, got["machine_controller_machines_total{controller=machine}{provider=aws}"], 0, "of both Reconcilers")
}

func TestWhatWasNotReadIsNotReported(t *testing.T) {
	unsynced := machinesInCache(1)
	unsynced.unsynced = true
	m := counting(MetricsOptions{}, "", machinesInCache(1), unsynced)
	require.Empty(t, Scrape(t, m), "half of the Machines are not known yet")
	missing := machinesInCache(1)
	missing.missing = &meta.NoKindMatchError{}
	require.Empty(t, Scrape(t, counting(MetricsOptions{}, "", missing)))
	require.Empty(t, Scrape(t, NewMetrics(MetricsOptions{})), "no Reconciler is at work")
}

func TestMachinesAreCountedWhileTheReconcilerActs(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	end := m.activate(testReconciler(testKind(), Ports{Ports: engine.Ports{Cache: machinesInCache(2)}}, Options{}))
	require.InDelta(t, 2, Scrape(t, m)["machinist_machines{controller=machine}{phase=Running}"], 0)
	end()
	require.Empty(t, Scrape(t, m))
}

func TestReplicasOfDeploymentsAreAddedUp(t *testing.T) {
	kind := contract.Unstructured(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeployment"},
		contract.LayoutsOf(contract.V1Beta2).MachineDeployment)
	deployments := &listed{}
	for _, o := range []map[string]any{
		{"spec": map[string]any{"replicas": int64(5)},
			"status": map[string]any{"replicas": int64(6), "readyReplicas": int64(4), "availableReplicas": int64(3)}},
		{"spec": map[string]any{"replicas": int64(2)}, "status": map[string]any{"replicas": int64(2), "readyReplicas": int64(2)}},
		{"spec": map[string]any{}},
	} {
		deployments.objects = append(deployments.objects, &unstructured.Unstructured{Object: o})
	}
	m := NewMetrics(MetricsOptions{})
	require.NoError(t, m.WatchDeployments(t.Context(), deployments, kind))
	require.Empty(t, Scrape(t, m), "a replica that waits for its turn reports nothing")
	end := m.activate(testReconciler(testKind(), Ports{Ports: engine.Ports{Cache: machinesInCache(0)}}, Options{}))
	series := func(state string) string {
		return "machine_controller_machine_deployment_replicas{controller=machine}{state=" + state + "}"
	}
	want := map[string]float64{series("desired"): 7, series("actual"): 8, series("ready"): 6, series("available"): 3}
	require.Empty(t, cmp.Diff(want, Scrape(t, m)))
	end()
	require.Empty(t, Scrape(t, m))

	notInstalled := &listed{missing: &meta.NoKindMatchError{}}
	require.ErrorContains(t, m.WatchDeployments(t.Context(), notInstalled, kind), "watch MachineDeployment objects for metrics")
	require.ErrorContains(t, m.WatchDeployments(t.Context(), notInstalled, contract.MachineDeploymentKind{}), "needs a GVK")
	require.NoError(t, (*Metrics)(nil).WatchDeployments(t.Context(), notInstalled, kind))
}

func TestReplicasOfDeploymentsAreThoseOfEachKind(t *testing.T) {
	gvk := schema.GroupVersion{Group: "example.com", Version: "v1"}.WithKind("MachineDeployment")
	for name, layout := range map[string]*contract.MachineDeploymentLayout{
		"Cluster API v1beta2": contract.LayoutsOf(contract.V1Beta2).MachineDeployment,
		"Cluster API v1beta1": contract.LayoutsOf(contract.V1Beta1).MachineDeployment,
		"Kubermatic":          contract.KubermaticLayouts().MachineDeployment, "Gardener": contract.GardenerLayouts().MachineDeployment,
	} {
		t.Run(name, func(t *testing.T) {
			status := map[string]any{"replicas": int64(6), "readyReplicas": int64(4), "availableReplicas": int64(3)}
			deployments := &listed{objects: []runtime.Object{&unstructured.Unstructured{Object: map[string]any{
				"spec": map[string]any{"replicas": int64(5)}, "status": status,
			}}}}
			m := NewMetrics(MetricsOptions{})
			require.NoError(t, m.WatchDeployments(t.Context(), deployments, contract.Unstructured(gvk, layout)))
			m.activate(testReconciler(testKind(), Ports{Ports: engine.Ports{Cache: machinesInCache(0)}}, Options{}))
			series := func(state string) string {
				return "machine_controller_machine_deployment_replicas{controller=machine}{state=" + state + "}"
			}
			want := map[string]float64{series("desired"): 5, series("actual"): 6, series("ready"): 4, series("available"): 3}
			require.Empty(t, cmp.Diff(want, Scrape(t, m)))
		})
	}
}

func TestAScrapeCopiesNoMachine(t *testing.T) {
	few, many := scrapeAllocations(t, machinesInCache(100)), scrapeAllocations(t, machinesInCache(2100))
	if perMachine := (many - few) / 2000; perMachine > 0.01 {
		t.Errorf("want no allocation per Machine, got %v (%v for 100, %v for 2100)", perMachine, few, many)
	}
}

func scrapeAllocations(t *testing.T, c *listed) float64 {
	t.Helper()
	m := counting(MetricsOptions{}, "", c)
	return testing.AllocsPerRun(5, func() { collect(m) })
}

// collect scrapes without a registry.
func collect(m *Metrics) (series int) {
	to := make(chan prometheus.Metric, 4096)
	m.Collect(to)
	close(to)
	return len(to)
}

func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{1000, 10000, 50000} {
		b.Run(fmt.Sprintf("%dMachines", n), func(b *testing.B) {
			m := counting(MetricsOptions{}, "", machinesInCache(n))
			b.ReportAllocs()
			for b.Loop() {
				collect(m)
			}
		})
	}
}
