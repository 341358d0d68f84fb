package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/safety"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// safetyOptions are the flags that stop runaways. Their names are Gardener's where it has them.
type safetyOptions struct {
	limits          safety.Limits
	freezePeriod    time.Duration
	gatePeriod      time.Duration
	gateTolerance   time.Duration
	freezeAll       bool
	freezeDeletions bool
	orphanPeriod    time.Duration
	orphans         safety.OrphanLimits
	collect         bool
	annotate        bool
	nodeAge         time.Duration
}

func (s *safetyOptions) flags(flags *flag.FlagSet) {
	flags.IntVar(&s.limits.Up, "safety-up", 2, "Machines beyond those of a rollout with which a MachineSet is frozen: it creates no more")
	flags.IntVar(&s.limits.Down, "safety-down", 1, "how many fewer than that thaw it")
	flags.DurationVar(&s.freezePeriod, "machine-safety-overshooting-period", guard.DefaultFreezerPeriod,
		"time between two looks at the number of Machines of a MachineSet without an event; 0 freezes none")
	flags.DurationVar(&s.gatePeriod, "machine-safety-apiserver-statuscheck-period", guard.DefaultGatePeriod,
		"time between two probes of the API servers, where MachineSets, health checks or a driver need that; 0 makes none")
	flags.DurationVar(&s.gateTolerance, "machine-safety-apiserver-statuscheck-timeout", guard.DefaultGateTolerance,
		"time without an answer after which MachineSets and MachineDeployments create nothing")
	flags.BoolVar(&s.freezeAll, "machine-safety-freeze-all", false,
		"stop the reconciliation of all objects of a cluster whose API server does not answer, and not only creations")
	flags.BoolVar(&s.freezeDeletions, "machine-safety-freeze-deletions", false, "with --machine-safety-freeze-all: stop deletions too")
	flags.DurationVar(&s.orphanPeriod, "machine-safety-orphan-vms-period", guard.DefaultCollectorPeriod,
		"time between two looks for the driver's instances without a Machine, and for such Nodes; 0 looks for none")
	flags.BoolVar(&s.collect, "machine-safety-collect-orphans", false,
		"delete those instances; otherwise they are reported in logs and metrics")
	flags.IntVar(&s.orphans.Confirmations, "machine-safety-orphan-confirmations", 3, "looks that must find no Machine before a deletion")
	flags.DurationVar(&s.orphans.Age, "machine-safety-orphan-age", 30*time.Minute, "time since the first of them")
	flags.IntVar(&s.orphans.PerPass, "machine-safety-orphan-limit", 1, "instances to delete after one look")
	flags.DurationVar(&s.orphans.StartDelay, "machine-safety-orphan-start-delay", 10*time.Minute,
		"time after the start, and after an outage, in which nothing is confirmed")
	flags.BoolVar(&s.annotate, "machine-safety-annotate-nodes", true, "annotate Nodes that no Machine belongs to")
	flags.DurationVar(&s.nodeAge, "machine-creation-timeout", 20*time.Minute, "age of such a Node")
}

// validate reports all errors at once.
func (s *safetyOptions) validate() error {
	var errs []error
	if s.gatePeriod > 0 && s.gatePeriod < s.gateTolerance {
		errs = append(errs, fmt.Errorf("--machine-safety-apiserver-statuscheck-period %s: give at least the timeout, %s", s.gatePeriod,
			s.gateTolerance))
	}
	if s.freezePeriod < 0 || s.gatePeriod < 0 || s.orphanPeriod < 0 || s.gateTolerance < 0 {
		errs = append(errs, errors.New("--machine-safety-...: give times such as 1m, or 0"))
	}
	if s.freezePeriod > 0 && (s.limits.Up < 1 || s.limits.Down < 1) {
		errs = append(errs, fmt.Errorf("--safety-up %d, --safety-down %d: give at least 1", s.limits.Up, s.limits.Down))
	}
	if s.collect && (s.orphans.Confirmations < 1 || s.orphans.PerPass < 1) {
		errs = append(errs, errors.New("--machine-safety-orphan-confirmations and --machine-safety-orphan-limit: give at least 1"))
	}
	return errors.Join(errs...)
}

// guardKinds are the kinds that the safety looks at.
func guardKinds(o options) guard.Kinds {
	kinds := guard.Kinds{Set: o.group.MachineSet(), Machine: o.group.Machine()} // one shared informer
	if o.machineDeployments {
		kinds.Deployment = o.group.MachineDeployment()
	}
	return kinds
}

// policyRules are the rights of the safety in the cluster of the Machines.
func (s *safetyOptions) policyRules(o options) []rbacv1.PolicyRule {
	w := guard.Wiring{
		Kinds: guardKinds(o), Freezer: o.machineSets && s.freezePeriod > 0, Gate: o.hasGate(), Clusters: o.followsClusters(),
		Collector: o.looksForOrphans(), Events: true,
	}
	if o.driver.isProvider() {
		w.Owners = []schema.GroupResource{{Group: kwokdriver.GVK().Group, Resource: driverResource}}
	}
	return guard.PolicyRules(w)
}

// safeguards are what runs beside the reconcilers.
type safeguards struct {
	gate    *guard.Gate
	metrics *guard.Metrics
}

// newSafeguards returns the gate, and adds it to the manager.
func newSafeguards(mgr ctrl.Manager, o options, clusters *external.Clusters, ports machine.Ports) (safeguards, error) {
	s := safeguards{metrics: guard.NewMetrics()}
	if err := metrics.Registry.Register(s.metrics); err != nil {
		return s, fmt.Errorf("set up metrics of the safety: %w", err)
	}
	if !o.hasGate() {
		return s, nil
	}
	options := guard.GateOptions{
		Management: guard.Answers(mgr.GetAPIReader(), o.group.Machine(), "default"), Metrics: s.metrics, Deletions: o.safety.freezeDeletions,
		Period: o.safety.gatePeriod, Tolerance: o.safety.gateTolerance,
	}
	if ports.NodesOf != nil {
		options.Workload = func(_ context.Context, key types.NamespacedName) error {
			_, err := ports.NodesOf(key)
			if !errors.Is(err, cluster.ErrNotConnected) || errors.Is(err, cluster.ErrNoKubeconfig) {
				return nil // it answers, or there is nothing to ask
			}
			return err
		}
	}
	if clusters != nil {
		options.Initialized = func(ctx context.Context, key types.NamespacedName) bool {
			view, err := clusters.Of(ctx, key)
			return err == nil && view.State.ControlPlaneInitialized
		}
	}
	var err error
	if s.gate, err = guard.NewGate(options); err != nil {
		return s, err
	}
	return s, mgr.Add(s.gate)
}

// freezing returns steps with the one that ends a pass while the gate is closed, behind the one with a name, if the flags ask for that.
func freezing[P guard.Freezable](o options, s safeguards, steps []pass.Step[P], behind string) ([]pass.Step[P], error) {
	if !o.safety.freezeAll {
		return steps, nil
	}
	return pass.InsertAfter(steps, behind, guard.FreezeStep[P](s.gate))
}

// guarded returns steps with those of the gate: the one that holds creations, before the step with a name, and that of freezing.
func guarded[P interface {
	guard.Freezable
	guard.Holdable
}](o options, s safeguards, steps []pass.Step[P], paused, before string) ([]pass.Step[P], error) {
	steps, err := pass.InsertBefore(steps, before, guard.HoldStep[P](s.gate))
	if err != nil {
		return nil, err
	}
	return freezing(o, s, steps, paused)
}

// add adds the freezer, the collector and the marker.
func (s safeguards) add(ctx context.Context, mgr ctrl.Manager, o options, clusters *external.Clusters, ports machine.Ports) error {
	if o.machineSets && o.safety.freezePeriod > 0 {
		shared := pass.PortsFromManager(mgr)
		follow(&shared, clusters)
		freezer, err := guard.NewFreezer(guardKinds(o), shared, guard.FreezerOptions{
			Limits: o.safety.limits, Period: o.safety.freezePeriod, Recorder: mgr.GetEventRecorder(userAgent), WatchFilter: o.watchFilter,
			Metrics: s.metrics, Controller: controller.Options{MaxConcurrentReconciles: o.concurrency},
		})
		if err != nil {
			return err
		}
		if err := freezer.AddToManager(ctx, mgr); err != nil {
			return err
		}
	}
	if !o.looksForOrphans() {
		return nil
	}
	return s.addCollector(mgr, o, clusters, ports)
}

// looksForOrphans reports whether instances or Nodes without a Machine are looked for.
func (o options) looksForOrphans() bool {
	return o.guarded() && o.safety.orphanPeriod > 0 && (o.driver.name != "" || o.safety.annotate)
}

// hasGate reports whether API servers are asked now and then whether they answer.
func (o options) hasGate() bool { return o.guarded() && o.safety.gatePeriod > 0 }

// guarded reports whether there is anything to keep safe: a manager of Machines alone creates nothing by itself, and makes no request
// while nothing changes.
func (o options) guarded() bool {
	return o.machineSets || o.machineDeployments || o.machineHealthChecks || o.driver.name != "" || o.safety.freezeAll
}

func (s safeguards) addCollector(mgr ctrl.Manager, o options, clusters *external.Clusters, ports machine.Ports) error {
	var calls provider.Calls
	if o.driver.name != "" {
		nodes, err := o.driver.client(mgr)
		if err != nil {
			return err
		}
		calls = o.driver.calls(nodes, nil)
	}
	options := o.collector(mgr.GetAPIReader(), calls)
	options.Recorder, options.Gate, options.Metrics = mgr.GetEventRecorder(userAgent), s.gate, s.metrics
	if clusters != nil {
		options.EventsOn = func(cluster types.NamespacedName) *corev1.ObjectReference {
			return &corev1.ObjectReference{
				APIVersion: api.ClusterAPI.GroupVersion().String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name,
			}
		}
	}
	if o.safety.annotate {
		options.NodeAge, options.NodesOf, options.OneCluster = o.safety.nodeAge, ports.NodesOf, ports.NodesOf == nil
	}
	if options.OneCluster {
		options.NodesOf = func(types.NamespacedName) (workload.Workload, error) {
			return ports.Workload.Or(mgr.GetClient(), mgr.GetAPIReader()), nil
		}
	}
	collector, err := guard.NewCollector(options)
	if err != nil {
		return err
	}
	return mgr.Add(collector)
}

// collector returns the options that the manager and "manager orphans" share.
func (o options) collector(reader client.Reader, calls provider.Calls) guard.CollectorOptions {
	sources := []guard.Source{guard.MachinesOf(reader, o.group.Machine())}
	if o.driver.isProvider() {
		kind := contract.Unstructured(kwokdriver.GVK(), contract.ProvidedMachine(contract.V1Beta2))
		sources = append(sources, guard.InfraMachinesOf(reader, kind))
	}
	limits := o.safety.orphans
	limits.Spacing = max(o.safety.orphanPeriod/2, time.Second)
	return guard.CollectorOptions{
		Calls: calls, Sources: sources, Delete: o.safety.collect, Limits: limits, Period: o.safety.orphanPeriod,
	}
}
