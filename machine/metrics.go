package machine

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

// Metrics are the Prometheus metrics of Reconcilers; the documentation of this package has the list. It implements
// prometheus.Collector: the caller hands it to Reconcilers (Options.Metrics) and registers it where it likes.
//
// Several Reconcilers may share one, then their figures are added; or each has its own, with a MetricsOptions.Name that no other
// has, and all of them fit into one registry. A nil Metrics counts nothing and costs nothing. Safe for concurrent use.
type Metrics struct {
	fixed    prometheus.Labels
	provider func(*contract.MachineState) string

	machines, replicas, phases *prometheus.Desc // computed when they are scraped
	errors, conflicts, results *prometheus.CounterVec
	passTime, stepTime         *prometheus.HistogramVec
	phaseTime                  *prometheus.HistogramVec
	workers                    prometheus.Gauge

	phaseNames, providerNames labelValues

	mu sync.Mutex
	// active are the Reconcilers at work, and deployments the caches of WatchDeployments.
	active      map[*Reconciler]machineCount
	deployments []deploymentSource
}

var _ prometheus.Collector = (*Metrics)(nil)

// MetricsOptions change what Metrics say. The zero value is ready for use.
type MetricsOptions struct {
	// Name is the value of the label controller on every series, so that several Metrics fit into one registry. Default "machine".
	// Give it the Options.Name of the Reconciler, and the label is the one that controller-runtime's own metrics have.
	Name string
	// Provider says for the label provider what makes a machine. It is called for each Machine in each scrape, must be
	// quick, always say the same of the same state, and name no object. Default: the kind of the infrastructure object, or else the
	// scheme of the provider ID, such as aws. An empty text becomes "none".
	Provider func(*contract.MachineState) string
}

// NewMetrics returns metrics without values for Options.Metrics.
func NewMetrics(o MetricsOptions) *Metrics {
	if o.Name == "" {
		o.Name = "machine"
	}
	if o.Provider == nil {
		o.Provider = providerOf
	}
	fixed := prometheus.Labels{"controller": strings.ToValidUTF8(o.Name, "?")}
	is := metricTable()
	return &Metrics{
		fixed: fixed, provider: o.Provider,
		machines: is[metricMachines].desc(fixed), replicas: is[metricReplicas].desc(fixed), phases: is[metricPhases].desc(fixed),
		errors: is[metricErrors].counters(fixed), conflicts: is[metricConflicts].counters(fixed), results: is[metricResults].counters(fixed),
		passTime: is[metricPassTime].histograms(fixed), stepTime: is[metricStepTime].histograms(fixed),
		phaseTime: is[metricPhaseTime].histograms(fixed),
		workers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: is[metricWorkers].name, Help: is[metricWorkers].help, ConstLabels: fixed,
		}),
		active: map[*Reconciler]machineCount{},
	}
}

// WatchDeployments has the replicas of MachineDeployments counted in a cache, which the caller starts; without it there is no such metric.
// Call it when the program is set up, once per cache and kind. It asks the cache for an informer, so it needs list and
// watch of the kind, as Wiring.Rollouts has them, and fails when the kind is not installed; scrapes make no requests. The error says
// what is wrong.
func (m *Metrics) WatchDeployments(ctx context.Context, c cache.Cache, kind contract.MachineDeploymentKind) error {
	if m == nil {
		return nil
	}
	if err := checkKind("MachineDeployment", kind); err != nil {
		return err
	}
	obj, _ := kind.New().(client.Object) // checkKind made sure
	informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s objects for metrics: %w", kind.GVK.Kind, err)
	}
	ctx = context.WithoutCancel(ctx) // it may be that of the set-up
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deployments = append(m.deployments, deploymentSource{informer: informer, kind: kind, each: func(do func(client.Object)) error {
		return eachInCache(ctx, c, informer, kind, do)
	}})
	return nil
}

// collectors are the metrics that count while the Reconcilers work.
func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.errors, m.workers, m.phaseTime, m.passTime, m.stepTime, m.results, m.conflicts}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	to <- m.machines
	to <- m.replicas
	to <- m.phases
}

// Collect implements prometheus.Collector. It makes no request and copies no object.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	m.collectCounts(to)
}

// Values of labels that stand for what has no name of its own.
const (
	labelNone       = "none"       // nothing was said
	labelOther      = "other"      // one value too many, or one that is too long to be a name
	labelUnreadable = "unreadable" // the object's content is not as its kind says
)

// Labels whose values come from objects are kept small: what exceeds this becomes labelOther.
const (
	maxLabelValues = 32
	maxLabelLength = 64
)

// labelValues are the values that a label has had, in the order in which they came. The zero value is ready for use.
type labelValues struct {
	mu     sync.Mutex
	values []string
}

// admit returns the value that stands for one from an object.
func (l *labelValues) admit(value string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if value == "" {
		value = labelNone
	}
	for _, known := range l.values {
		if known == value {
			return known
		}
	}
	if len(l.values) >= maxLabelValues || len(value) > maxLabelLength || strings.ToValidUTF8(value, "") != value {
		return labelOther
	}
	l.values = append(l.values, value)
	return value
}

// known returns the values so far.
func (l *labelValues) known() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.values...)
}

// providerOf is the default of MetricsOptions.Provider. A class is no provider: its name is that of an object. Nor is a provider ID
// without a scheme, such as Oracle's.
func providerOf(state *contract.MachineState) string {
	if state.Infrastructure.Kind != "" {
		return state.Infrastructure.Kind
	}
	scheme, _, found := strings.Cut(state.ProviderID, "://")
	if !found {
		return ""
	}
	return scheme
}
