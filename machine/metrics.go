package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Metrics are the Prometheus metrics of Reconcilers, a prometheus.Collector. The caller creates them, sets them in Options.Metrics and
// registers them; nothing registers itself:
//
//	metrics := machine.NewMetrics(machine.MetricsOptions{})
//	err := registry.Register(metrics) // controller-runtime's metrics.Registry, or any other
//	options.Metrics = metrics
//
// They contain those of engine.Metrics, with machine as the kind. Several Reconcilers can share one, then their values are added; or each
// has its own, with a unique MetricsOptions.Name, and all of them fit into one registry. Nil Metrics count nothing and cost nothing. Safe
// for concurrent use.
//
// No label names an object, and every label has a bounded set of values: of phases and providers, which come from objects, 32 are
// distinguished, and further ones count as "other".
//
// Machines and replicas are counted in the cache at each scrape, without copies and without requests, in a few microseconds for
// each Machine. They are missing, not zero, until the cache is complete, and in a process that waits for leader election, so that sums
// over processes are right. A process counts from when its controller is started, or, in a loop of your own, from its first pass after
// IndexMachines.
//
// The metrics:
//
//	machine_controller_machines_total{controller,provider}: gauge
//		Machines that are looked after, by what provides their machine.
//	machine_controller_machine_deployment_replicas{controller,state}: gauge
//		Replicas of all MachineDeployments: desired, actual, ready and available.
//	machinist_machines{controller,phase}: gauge
//		Machines that are looked after, by the phase in their status.
type Metrics struct {
	passes   *engine.Metrics
	provider func(*contract.MachineState) string

	machines, replicas, phases *prometheus.Desc // computed when they are scraped

	phaseNames, providerNames labelValues

	mu sync.Mutex
	// active are the Reconcilers at work, and deployments the caches of WatchDeployments.
	active      map[*Reconciler]struct{}
	deployments []deploymentSource
}

var _ prometheus.Collector = (*Metrics)(nil)

// MetricsOptions change what Metrics say. The zero value is ready for use.
type MetricsOptions struct {
	// Name is the value of the label controller on every series, so that several Metrics can be in one registry. Default "machine". Set it
	// to the Options.Name of the Reconciler, and the label has the value of controller-runtime's own metrics.
	Name string
	// Provider returns the value of the label provider. It is called for each Machine in each scrape, must be quick, must always return
	// the same text for the same state, and must not return the name of an object. Default: the kind of the infrastructure object, or else
	// the scheme of the provider ID, such as aws. An empty text becomes "none".
	Provider func(*contract.MachineState) string
}

// NewMetrics returns metrics without values for Options.Metrics.
func NewMetrics(o MetricsOptions) *Metrics {
	if o.Provider == nil {
		o.Provider = providerOf
	}
	of := engine.MetricsOptions{Kind: "Machine", Name: o.Name}
	desc := func(m metric) *prometheus.Desc {
		return prometheus.NewDesc(m.name, m.help, []string{m.label}, of.Labels())
	}
	table := metricTable()
	return &Metrics{
		passes: engine.NewMetrics(of), provider: o.Provider, active: map[*Reconciler]struct{}{},
		machines: desc(table[metricMachines]), replicas: desc(table[metricReplicas]), phases: desc(table[metricPhases]),
	}
}

// ofPasses returns the metrics of the passes, nil without.
func (m *Metrics) ofPasses() *engine.Metrics {
	if m == nil {
		return nil
	}
	return m.passes
}

// metric describes one metric. The collector and the list in the documentation are made from these.
type metric struct{ name, help, label string }

// The metrics, in the order of the documentation. The names of the first two come from the requirements of this project.
const (
	metricMachines = iota
	metricReplicas
	metricPhases
	metricCount
)

func metricTable() [metricCount]metric {
	return [metricCount]metric{
		metricMachines: {
			name: "machine_controller_machines_total", label: "provider",
			help: "Machines that are looked after, by what provides their machine.",
		},
		metricReplicas: {
			name: "machine_controller_machine_deployment_replicas", label: "state",
			help: "Replicas of all MachineDeployments: desired, actual, ready and available.",
		},
		metricPhases: {
			name: "machinist_machines", label: "phase",
			help: "Machines that are looked after, by the phase in their status.",
		},
	}
}

// WatchDeployments adds the replicas of the MachineDeployments in a cache, which the caller starts, to the metrics; without it, that
// metric does not exist. Call it when the program is set up, once per cache and kind. It asks the cache for an informer, so it needs list
// and watch of the kind, as Wiring.Rollouts has them, and fails when the kind is not installed; scrapes make no requests.
func (m *Metrics) WatchDeployments(ctx context.Context, c cache.Cache, kind contract.MachineDeploymentKind) error {
	if m == nil {
		return nil
	}
	if err := engine.CheckKind("the kind of MachineDeployment", kind); err != nil {
		return err
	}
	informer, err := c.GetInformer(ctx, engine.NewObject(kind), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s objects for metrics: %w", kind.GVK.Kind, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deployments = append(m.deployments, deploymentSource{c, informer, kind})
	return nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.passes.Describe(to)
	to <- m.machines
	to <- m.replicas
	to <- m.phases
}

// Collect implements prometheus.Collector. It makes no request and copies no object.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.passes.Collect(to)
	m.collectCounts(context.Background(), to) //nolint:forbidigo // Prometheus gives a Collector no context
}

// Label values for what has no name of its own.
const (
	labelNone       = "none"       // there is no value
	labelOther      = "other"      // one value too many, or one that is too long to be a name
	labelUnreadable = "unreadable" // the object's content is not as its kind says
)

// Labels whose values come from objects have few values: others become labelOther.
const (
	maxLabelValues = 32
	maxLabelLength = 64
)

// labelValues are the values that a label has had, in order of their first use. The zero value is ready for use.
type labelValues struct {
	mu     sync.Mutex
	values []string
}

// admit returns the label value for a value from an object.
func (l *labelValues) admit(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	value = cmp.Or(value, labelNone)
	if slices.Contains(l.values, value) {
		return value
	}
	if len(l.values) >= maxLabelValues || len(value) > maxLabelLength || strings.ToValidUTF8(value, "") != value {
		return labelOther
	}
	l.values = append(l.values, value)
	return value
}

// providerOf is the default of MetricsOptions.Provider. A class is no provider: its name is the name of an object. A provider ID without a
// scheme, such as Oracle's, has no provider either.
func providerOf(state *contract.MachineState) string {
	if state.Infrastructure.Kind != "" {
		return state.Infrastructure.Kind
	}
	if scheme, _, found := strings.Cut(state.ProviderID, "://"); found {
		return scheme
	}
	return ""
}

// deploymentSource is a cache of MachineDeployments.
type deploymentSource struct {
	cache    cache.Cache
	informer cache.Informer
	kind     contract.MachineDeploymentKind
}

// errNotCounted is returned while a cache is not complete: unread objects may exist, so nothing is reported.
var errNotCounted = errors.New("the cache is not synced")

// start counts the Machines of a Reconciler while its controller runs: from its start until ctx ends.
func (m *Metrics) start(ctx context.Context, r *Reconciler) {
	if m != nil && r.counted.CompareAndSwap(false, true) {
		context.AfterFunc(ctx, m.activate(r))
	}
}

// begin is called at the start of a pass. Where no controller was started, the first pass shows that this process is active.
func (m *Metrics) begin(ctx context.Context, r *Reconciler) {
	if m != nil && r.indexed && !r.counted.Load() {
		m.start(context.WithoutCancel(ctx), r)
	}
}

// activate counts the Machines of a Reconciler until the returned function is called.
func (m *Metrics) activate(r *Reconciler) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active[r] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.active, r)
	}
}

// collectCounts reports the counts of objects in caches. A replica that waits for leadership reports none, so that sums over replicas are
// right, and neither does one whose caches are not complete.
func (m *Metrics) collectCounts(ctx context.Context, to chan<- prometheus.Metric) {
	m.mu.Lock()
	active, deployments := slices.Collect(maps.Keys(m.active)), slices.Clone(m.deployments)
	m.mu.Unlock()
	if len(active) == 0 {
		return
	}
	byPhase, byProvider := map[string]int{}, map[string]int{}
	var err error
	for _, r := range active {
		err = errors.Join(err, m.countMachines(ctx, r, byPhase, byProvider))
	}
	if err == nil {
		gauges(to, m.phases, m.phaseNames.sum(byPhase))
		gauges(to, m.machines, m.providerNames.sum(byProvider))
	}
	if len(deployments) == 0 {
		return
	}
	if byState, err := countReplicas(ctx, deployments); err == nil {
		gauges(to, m.replicas, byState)
	}
}

func gauges(to chan<- prometheus.Metric, desc *prometheus.Desc, values map[string]int) {
	for label, value := range values {
		metric, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, float64(value), label)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		to <- metric
	}
}

// sum adds up counts under the values that a label can have. A value that was reported once stays, with zero.
func (l *labelValues) sum(counts map[string]int) map[string]int {
	sums := map[string]int{}
	for _, value := range slices.Sorted(maps.Keys(counts)) { // the values that are kept are the same in every process
		sums[l.admit(value)] += counts[value]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, value := range l.values {
		sums[value] += 0
	}
	return sums
}

// countMachines reads every Machine in the cache of a Reconciler, without copying it.
func (m *Metrics) countMachines(ctx context.Context, r *Reconciler, byPhase, byProvider map[string]int) error {
	informer, err := r.ports.Cache.GetInformer(ctx, engine.NewObject(r.kind), cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return errors.Join(err, errNotCounted)
	}
	var state contract.MachineState
	return eachInCache(ctx, r.ports.Cache, informer, r.kind, func(obj client.Object) {
		if !r.frame.MatchesWatchFilter(obj) {
			return
		}
		if r.kind.Adapter.Read(obj, &state) != nil {
			state = contract.MachineState{} // a failed read may leave any content
			byPhase[labelUnreadable]++
			byProvider[labelUnreadable]++
			return
		}
		byPhase[state.Phase]++
		byProvider[m.provider(&state)]++
	})
}

// countReplicas adds up the replicas of all MachineDeployments. An absent number counts as zero.
func countReplicas(ctx context.Context, sources []deploymentSource) (map[string]int, error) {
	byState := map[string]int{"desired": 0, "actual": 0, "ready": 0, "available": 0}
	for _, source := range sources {
		if !source.informer.HasSynced() {
			return nil, errNotCounted
		}
		var state contract.MachineDeploymentState
		err := eachInCache(ctx, source.cache, source.informer, source.kind, func(obj client.Object) {
			if source.kind.Adapter.Read(obj, &state) != nil {
				state = contract.MachineDeploymentState{} // a failed read may leave any content
				return
			}
			byState["desired"] += int(state.Replicas.Or(0))
			byState["actual"] += int(state.ObservedReplicas.Or(0))
			byState["ready"] += int(state.ReadyReplicas.Or(0))
			byState["available"] += int(state.AvailableReplicas.Or(0))
		})
		if err != nil {
			return nil, err
		}
	}
	return byState, nil
}

// eachInCache passes every object of a kind to a function, as a view. Lists of Go types contain structs, which even a list without deep
// copies would copy: so it uses the informer's own store, and lists only in a cache of several namespaces, which has several stores.
func eachInCache[S, U any](
	ctx context.Context, c cache.Cache, informer cache.Informer, kind contract.KindOf[S, U], do func(client.Object),
) error {
	if one, ok := informer.(interface{ GetStore() toolscache.Store }); ok {
		for _, item := range one.GetStore().List() {
			if obj, ok := item.(client.Object); ok {
				do(obj)
			}
		}
		return nil
	}
	list := engine.NewList(kind)
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	return engine.EachObject(list, do)
}
