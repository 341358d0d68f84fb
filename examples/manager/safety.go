package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// safetyRules are the rights of the rest of the safety, which looks at all namespaces.
func (o settings) safetyRules() []rbacv1.PolicyRule {
	w := guard.Wiring{Machines: o.Kinds.Group.Machine().GroupResource(), Gate: o.hasGate(), Collector: o.looksForOrphans(), Events: true}
	if o.Driver.IsProvider() {
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
func newSafeguards(mgr ctrl.Manager, o settings, clusters *pass.Clusters, ports machine.Ports) (safeguards, error) {
	s := safeguards{metrics: guard.NewMetrics()}
	if err := metrics.Registry.Register(s.metrics); err != nil {
		return s, fmt.Errorf("set up metrics of the safety: %w", err)
	}
	if !o.hasGate() {
		return s, nil
	}
	options := guard.GateOptions{
		Management: guard.Answers(mgr.GetAPIReader(), o.Kinds.Group.Machine(), "default"), Metrics: s.metrics,
		Deletions: o.Safety.FreezeDeletions,
		Period:    o.Safety.GatePeriod, Tolerance: o.Safety.GateTolerance,
	}
	if ports.NodesOf != nil {
		options.Workload = func(_ context.Context, key types.NamespacedName) error {
			_, err := ports.NodesOf(key)
			if !errors.Is(err, cluster.ErrNotConnected) {
				return nil // it answers
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
func freezing[P guard.Freezable](o settings, s safeguards, steps pass.Steps[P], behind string) pass.Steps[P] {
	if !o.Safety.FreezeAll {
		return steps
	}
	return steps.InsertAfter(behind, guard.FreezeStep[P](s.gate))
}

// guarded returns steps with those of the gate: the one that holds creations, before the step with a name, and that of freezing.
func guarded[P interface {
	guard.Freezable
	guard.Holdable
}](o settings, s safeguards, steps pass.Steps[P], paused, before string) pass.Steps[P] {
	return freezing(o, s, steps.InsertBefore(before, guard.HoldStep[P](s.gate)), paused)
}

// add adds the collector.
func (s safeguards) add(mgr ctrl.Manager, o settings, clusters *pass.Clusters, ports machine.Ports) error {
	if !o.looksForOrphans() {
		return nil
	}
	return s.addCollector(mgr, o, clusters, ports)
}

// looksForOrphans reports whether instances without a Machine are looked for.
func (o settings) looksForOrphans() bool { return o.Safety.OrphanPeriod > 0 && o.Driver.Name != "" }

// hasGate reports whether API servers are asked now and then whether they answer.
func (o settings) hasGate() bool { return o.guarded() && o.Safety.GatePeriod > 0 }

// guarded reports whether there is anything to keep safe: a manager of Machines alone creates nothing by itself, and makes no request
// while nothing changes.
func (o settings) guarded() bool {
	return o.Kinds.MachineSets || o.Kinds.MachineDeployments || o.Kinds.MachineHealthChecks || o.Driver.Name != "" || o.Safety.FreezeAll
}

func (s safeguards) addCollector(mgr ctrl.Manager, o settings, clusters *pass.Clusters, ports machine.Ports) error {
	nodes, err := o.driverClient(mgr)
	if err != nil {
		return err
	}
	options := o.collector(mgr.GetAPIReader(), o.driverCalls(nodes, mgr.GetAPIReader(), nil))
	options.Recorder, options.Gate, options.Metrics = mgr.GetEventRecorder(userAgent), s.gate, s.metrics
	if clusters != nil {
		options.EventsOn = func(cluster types.NamespacedName) *corev1.ObjectReference {
			return &corev1.ObjectReference{
				APIVersion: api.ClusterAPI.GroupVersion().String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name,
			}
		}
	}
	if ports.NodesOf != nil && len(o.Machines.Namespaces) > 0 {
		options.Reconciles = func(cluster types.NamespacedName) bool {
			return slices.Contains(o.Machines.Namespaces, cluster.Namespace)
		}
	}
	collector, err := guard.NewCollector(options)
	if err != nil {
		return err
	}
	return mgr.Add(collector)
}

// collector returns the options that the manager and "manager orphans" share.
func (o settings) collector(reader client.Reader, calls provider.Calls) guard.CollectorOptions {
	sources := []guard.Source{guard.MachinesOf(reader, o.Kinds.Group.Machine())}
	if o.Driver.IsProvider() {
		kind := contract.Unstructured(kwokdriver.GVK(), contract.LayoutsOf(contract.V1Beta2).ProvidedMachine)
		sources = append(sources, guard.InfraMachinesOf(reader, kind))
	}
	limits := o.Safety.Orphans
	limits.Spacing = max(o.Safety.OrphanPeriod/2, time.Second)
	return guard.CollectorOptions{
		Calls: calls, Sources: sources, Delete: o.Safety.CollectOrphans, Limits: limits, Period: o.Safety.OrphanPeriod,
	}
}
