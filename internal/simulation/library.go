package simulation

import (
	"context"
	"errors"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/noderef"
)

// libraryKinds are the kinds of Cluster API that the reconcilers of the library act on.
func libraryKinds() []fake.ServedKind {
	var all []fake.ServedKind
	for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment"} {
		all = append(all, fake.ServedKind{GVK: kindOf(kind), Status: true})
	}
	return append(all, poolKinds()...)
}

func setUpLibrary(m Manager) ([]Reconciler, error) {
	machines, err := setUpMachines(m)
	if err != nil {
		return nil, err
	}
	sets, err := setUpSets(m)
	if err != nil {
		return nil, err
	}
	deployments, err := setUpDeployments(m)
	all := []Reconciler{machines, sets, deployments}
	if err != nil || m.process.world.pool == nil {
		return all, err
	}
	pools, err := setUpPools(m)
	return append(all, pools), err
}

func setUpMachines(m Manager) (Reconciler, error) {
	steps, err := stepsOf(m)
	if err != nil {
		return Reconciler{}, err
	}
	rollouts, err := machine.RolloutFromCache(m.Ports.Cache, contract.Unstructured(kindOf("MachineSet"), contract.MachineSetV1Beta2()),
		contract.Unstructured(kindOf("MachineDeployment"), contract.MachineDeploymentV1Beta2()))
	if err != nil {
		return Reconciler{}, err
	}
	metrics := machine.NewMetrics(machine.MetricsOptions{})
	nodesOf, events := m.process.reach()
	machines, err := machine.New(contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2()),
		machine.Ports{Ports: m.Ports, Workload: m.Workload, NodesOf: nodesOf, WorkloadEvents: events,
			RolloutOf: rollouts.Of, RolloutEvents: m.process.rolloutEvents},
		machine.Options{Steps: steps, Clock: m.Clock, Controller: m.Controller, Metrics: metrics, Matching: matching(), Recorder: m.recorder()})
	if err != nil {
		return Reconciler{}, err
	}
	return Reconciler{"Machine", machines.Reconcile, machines.AddToManager}, errors.Join(m.register(metrics), metrics.WatchDeployments(
		m.process.world.ctx, m.Ports.Cache, contract.Unstructured(kindOf("MachineDeployment"), contract.MachineDeploymentV1Beta2())))
}

// stepsOf returns the steps of Machines: those of the cloud, or the library's own where providers make the instances.
func stepsOf(m Manager) ([]machine.Step, error) {
	if m.process.world.provided != nil {
		return machine.Steps(), nil
	}
	steps, err := machineSteps(m)
	return withParts(m, steps, err)
}

// matching takes the forms of a provider ID for one that differ in the case of letters.
func matching() noderef.Rules { return noderef.Rules{Canonical: strings.ToLower} }

func setUpSets(m Manager) (Reconciler, error) {
	kinds, err := machineset.ClusterAPI(contract.V1Beta2)
	if err != nil {
		return Reconciler{}, err
	}
	steps, err := engine.InsertBefore(machineset.Steps(), machineset.StepHolds, guard.HoldStep[*machineset.Scope](m.gate))
	if err != nil {
		return Reconciler{}, err
	}
	metrics := engine.NewMetrics(engine.MetricsOptions{Kind: "MachineSet"})
	options := machineset.Options{
		Clock: m.Clock, Controller: m.Controller, Parallel: 1, Steps: steps, Metrics: metrics, Recorder: m.recorder(),
	}
	if m.process.world.bare {
		options.MachineFinalizers = []string{}
	}
	sets, err := machineset.New(kinds, machineset.Ports{Ports: m.Ports}, options)
	if err != nil {
		return Reconciler{}, err
	}
	return Reconciler{"MachineSet", sets.Reconcile, sets.AddToManager}, m.register(metrics)
}

func setUpDeployments(m Manager) (Reconciler, error) {
	kinds, err := deployment.ClusterAPI(contract.V1Beta2)
	if err != nil {
		return Reconciler{}, err
	}
	steps, err := engine.InsertAfter(deployment.Steps(), deployment.StepSets, guard.HoldStep[*deployment.Scope](m.gate))
	if err != nil {
		return Reconciler{}, err
	}
	metrics := engine.NewMetrics(engine.MetricsOptions{Kind: "MachineDeployment"})
	deployments, err := deployment.New(kinds, deployment.Ports{Ports: m.Ports},
		deployment.Options{Clock: m.Clock, Controller: m.Controller, Steps: steps, Recorder: m.recorder(), Metrics: metrics})
	if err != nil {
		return Reconciler{}, err
	}
	return Reconciler{"MachineDeployment", deployments.Reconcile, deployments.AddToManager}, m.register(metrics)
}

// register lets the Report count what the metrics of a reconciler count.
func (m Manager) register(metrics prometheus.Collector) error { return m.Registry.Register(metrics) }

// machineSteps returns the steps of Machines whose instances the cloud of a World makes, without bootstrap data.
func machineSteps(m Manager) ([]machine.Step, error) {
	steps, err := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: m.Calls, Poll: pollEvery,
		RequestOf: func(_ context.Context, s *contract.MachineState) (cloud.Request, error) {
			return m.process.world.habits.requestOf(s.Key.Name), nil
		},
	})
	if err != nil {
		return nil, err
	}
	return engine.Remove(steps, machine.StepBootstrap)
}
