package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Metrics are the Prometheus metrics of Reconcilers, a prometheus.Collector. The caller creates them, sets them in Options.Metrics and
// registers them; nothing registers itself:
//
//	metrics := machine.NewMetrics(machine.MetricsOptions{})
//	err := registry.Register(metrics) // controller-runtime's metrics.Registry, or any other
//	options.Metrics = metrics
//
// They include those of engine.Metrics, with machine as the kind. Several Reconcilers can share one Metrics, which adds their values; or
// each has its own, with a unique MetricsOptions.Name, and all can be in one registry. Nil Metrics count nothing and cost nothing. Safe for
// concurrent use.
//
// No label names an object.
//
// Machines and replicas are counted in the cache at each scrape, without copies and requests, in a few microseconds for each Machine. They
// are missing, not zero, until the cache is complete, and in a process that waits for leader election, so that sums over processes are
// right. A process counts from the start of its controller.
//
// The metrics:
//
//	machine_controller_machines_total{controller,provider}: gauge
//		Machines that are reconciled, by what provides their machine.
//	machine_controller_machine_deployment_replicas{controller,state}: gauge
//		Replicas of all MachineDeployments: desired, actual, ready and available, and those that frozen ones desire.
//	machinist_machines{controller,phase}: gauge
//		Machines that are reconciled, by the phase in their status.
type Metrics struct {
	passes   *engine.Metrics
	provider func(*contract.MachineState) string

	machines, replicas, phases *prometheus.Desc // computed when they are scraped

	mu sync.Mutex
	// active are the running Reconcilers, and deployments the caches of WatchDeployments.
	active      map[*Reconciler]struct{}
	deployments []deploymentSource
}

var _ prometheus.Collector = (*Metrics)(nil)

// MetricsOptions configure Metrics. The zero value is ready for use.
type MetricsOptions struct {
	// Name is the value of the label controller on every series, so that several Metrics can be in one registry. Default "machine". Set it to
	// the Options.Name of the Reconciler to get the label value of controller-runtime's own metrics.
	Name string
	// Provider returns the value of the label provider. It is called for each Machine in each scrape, must be quick, must always return the
	// same value for the same state, and must not return the name of an object. Default: the kind of the infrastructure object, or else the
	// scheme of the provider ID, such as aws. An empty value becomes "none".
	Provider func(*contract.MachineState) string
}

// NewMetrics returns metrics without values for Options.Metrics.
func NewMetrics(o MetricsOptions) *Metrics {
	if o.Provider == nil {
		o.Provider = providerOf
	}
	of := engine.MetricsOptions{Kind: "Machine", Name: o.Name}
	desc := func(name, label, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{label}, of.Labels())
	}
	return &Metrics{ // the names of the first two come from the requirements of this project
		passes: engine.NewMetrics(of), provider: o.Provider, active: map[*Reconciler]struct{}{},
		machines: desc("machine_controller_machines_total", "provider", "Machines that are reconciled, by what provides their machine."),
		replicas: desc("machine_controller_machine_deployment_replicas", "state",
			"Replicas of all MachineDeployments: desired, actual, ready and available, and those that frozen ones desire."),
		phases: desc("machinist_machines", "phase", "Machines that are reconciled, by the phase in their status."),
	}
}

// ofPasses returns the metrics of the passes, nil for nil Metrics.
func (m *Metrics) ofPasses() *engine.Metrics {
	if m == nil {
		return nil
	}
	return m.passes
}

// WatchDeployments adds the replicas of the MachineDeployments in a cache to the metrics; without it, that metric does not exist. The
// caller starts the cache. Call it during setup, once per cache and kind. It gets an informer from the cache, so it needs list and watch of
// the kind (see Wiring.Deployments), and fails when the kind is not installed; scrapes make no requests.
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

// Label values for objects without a value.
const (
	labelNone       = "none"       // there is no value
	labelUnreadable = "unreadable" // as a phase: the object does not match its kind
)

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

// errNotCounted is returned while a cache is not complete: nothing is reported, because unread objects may exist.
var errNotCounted = errors.New("the cache is not synced")

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

// collectCounts reports the counts of objects in caches. It reports none while this process waits for leadership, so that sums over
// processes are right, and none while its caches are not complete.
func (m *Metrics) collectCounts(ctx context.Context, to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.active) == 0 {
		return
	}
	byPhase, byProvider := map[string]int{}, map[string]int{}
	var err error
	for r := range m.active {
		err = errors.Join(err, m.countMachines(ctx, r, byPhase, byProvider))
	}
	if err == nil {
		gauges(to, m.phases, byPhase)
		gauges(to, m.machines, byProvider)
	}
	if byState, err := countReplicas(ctx, m.deployments); err == nil && len(m.deployments) > 0 {
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

// countMachines reads every Machine in the cache of a Reconciler, without copying it.
func (m *Metrics) countMachines(ctx context.Context, r *Reconciler, byPhase, byProvider map[string]int) error {
	informer, err := r.ports.Cache.GetInformer(ctx, engine.NewObject(r.kind), cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return errors.Join(err, errNotCounted)
	}
	var state contract.MachineState
	return r.frame.Each(ctx, "", "", func(obj client.Object) {
		if !r.frame.MatchesWatchFilter(obj) {
			return
		}
		if r.kind.Adapter.Read(obj, &state) != nil {
			state = contract.MachineState{Phase: labelUnreadable} // a failed read may leave any content
		}
		byPhase[cmp.Or(state.Phase, labelNone)]++
		byProvider[cmp.Or(m.provider(&state), labelNone)]++
	})
}

// countReplicas adds up the replicas of all MachineDeployments, counted by Machines or by Nodes as their kind does. A missing number counts
// as zero.
func countReplicas(ctx context.Context, sources []deploymentSource) (map[string]int, error) {
	byState := map[string]int{"desired": 0, "actual": 0, "ready": 0, "available": 0, "frozen": 0}
	for _, source := range sources {
		if !source.informer.HasSynced() {
			return nil, errNotCounted
		}
		list := engine.NewList(source.kind)
		if err := source.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		var state contract.MachineDeploymentState
		err := engine.EachObject(list, func(obj client.Object) {
			if source.kind.Adapter.Read(obj, &state) != nil {
				state = contract.MachineDeploymentState{} // a failed read may leave any content
			}
			byState["desired"] += int(state.Replicas.Or(0))
			if scale.FreezingOf(source.kind.GVK.Group, &state.Metadata, nil) != scale.NotFrozen {
				byState["frozen"] += int(state.Replicas.Or(0))
			}
			byState["actual"] += int(state.ObservedReplicas.Or(0))
			byState["ready"] += int(state.ReadyReplicas.Or(state.NodeReadyReplicas.Or(0)))
			byState["available"] += int(state.AvailableReplicas.Or(state.NodeAvailableReplicas.Or(0)))
		})
		if err != nil {
			return nil, err
		}
	}
	return byState, nil
}
