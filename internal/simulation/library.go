package simulation

import (
	"context"
	"errors"
	"strings"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/inframachine"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/noderef"
)

// libraryKinds are the kinds of Cluster API that the reconcilers of the library act on.
func libraryKinds() (all []fake.ServedKind) {
	for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment"} {
		all = append(all, fake.ServedKind{GVK: kindOf(kind), Status: true})
	}
	return append(all, poolKinds()...)
}

// setUp adds the reconcilers of the library, as an operator's main function does. The gate holds sets and deployments; nil holds nothing.
func (m *manager) setUp(ctx context.Context, gate *guard.Gate) error {
	err := errors.Join(m.addMachines(ctx), m.addSets(ctx, gate), m.addDeployments(ctx, gate))
	if m.process.world.pool != nil {
		err = errors.Join(err, m.addPools(ctx))
	}
	if m.process.world.provided != nil && m.process.world.provided.driven {
		err = errors.Join(err, m.addInfraMachines(ctx))
	}
	return err
}

// matching takes the forms of a provider ID for one that differ in the case of letters.
func matching() noderef.Rules { return noderef.Rules{Canonical: strings.ToLower} }

func (m *manager) addMachines(ctx context.Context) error {
	ports := machine.Ports{Ports: engine.PortsFromManager(m), Workload: m.workload}
	ports.NodesOf, ports.WorkloadEvents = m.process.reach()
	metrics := machine.NewMetrics(machine.MetricsOptions{})
	of := contract.LayoutsOf(contract.V1Beta2)
	machines, err := machine.New(contract.Unstructured(fake.MachineGVK(), of.Machine), ports, machine.Options{
		Options: m.shared(nil), Steps: m.machineSteps(), Metrics: metrics, Matching: matching(),
	})
	if err != nil {
		return err
	}
	return errors.Join(machines.AddToManager(ctx, m), m.process.metrics.Register(metrics),
		metrics.WatchDeployments(ctx, ports.Cache, contract.Unstructured(kindOf("MachineDeployment"), of.MachineDeployment)))
}

// machineSteps returns the steps of Machines: those of the cloud, without bootstrap data, or the library's own where providers make the
// instances.
func (m *manager) machineSteps() []machine.Step {
	w := m.process.world
	if w.provided != nil {
		return machine.Steps()
	}
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: m.process.cloudCalls(), Poll: pollEvery,
		RequestOf: func(_ context.Context, s *contract.MachineState) (cloud.Request, error) {
			return w.habits.requestOf(s.Key.Name), nil
		},
	})
	if steps = steps.Remove(machine.StepBootstrap); w.parts {
		steps = steps.InsertBefore(machine.StepRemoveFinalizer, removesPart(m))
	}
	return steps
}

// shared are the options of the reconcilers of all kinds.
func (m *manager) shared(metrics *engine.Metrics) engine.Options {
	return engine.Options{Clock: m.process.clock(), Controller: m.options(), Metrics: metrics, Recorder: recorder{m.process}}
}

func (m *manager) addSets(ctx context.Context, gate *guard.Gate) error {
	kinds, unknown := contract.ClusterAPI(contract.V1Beta2)
	steps := machineset.Steps().InsertBefore(machineset.StepHolds, guard.HoldStep[*machineset.Scope](gate))
	if gate != nil {
		of := contract.Unstructured(kindOf("MachineDeployment"), contract.LayoutsOf(contract.V1Beta2).MachineDeployment)
		steps = steps.InsertBefore(machineset.StepHolds, machineset.FreezeStep(machineset.FreezeOptions{Deployment: of}))
	}
	metrics := engine.NewMetrics(engine.MetricsOptions{Kind: "MachineSet"})
	options := machineset.Options{Options: m.shared(metrics), Steps: steps}
	if m.process.world.bare {
		kinds.Machine.Finalizer = contract.NoFinalizer
	}
	_, err := machineset.SetupWithManager(ctx, m, kinds, options)
	return errors.Join(unknown, err, m.process.metrics.Register(metrics))
}

func (m *manager) addDeployments(ctx context.Context, gate *guard.Gate) error {
	kinds, unknown := contract.ClusterAPI(contract.V1Beta2)
	steps := deployment.Steps().InsertAfter(deployment.StepSets, guard.HoldStep[*deployment.Scope](gate))
	if gate != nil {
		steps = steps.InsertAfter(deployment.StepSets, deployment.FreezeStep())
	}
	metrics := engine.NewMetrics(engine.MetricsOptions{Kind: "MachineDeployment"})
	_, err := deployment.SetupWithManager(ctx, m, kinds, deployment.Options{Options: m.shared(metrics), Steps: steps})
	return errors.Join(unknown, err, m.process.metrics.Register(metrics))
}

func (m *manager) addPools(ctx context.Context) error {
	kinds, unknown := machinepool.ClusterAPI(contract.V1Beta2)
	ports := machinepool.Ports{Ports: engine.PortsFromManager(m), Workload: m.workload}
	ports.NodesOf, ports.WorkloadEvents = m.process.reach()
	pools, err := machinepool.New(kinds, ports, machinepool.Options{Options: m.shared(nil)})
	if err := errors.Join(unknown, err); err != nil {
		return err
	}
	return pools.AddToManager(ctx, m)
}

// addInfraMachines adds the provider of infrastructure objects that the library has.
func (m *manager) addInfraMachines(ctx context.Context) error {
	kinds, unknown := inframachine.ClusterAPI(partGVK(), contract.V1Beta2)
	metrics := engine.NewMetrics(engine.MetricsOptions{Kind: partGVK().Kind})
	_, err := inframachine.SetupWithManager(ctx, m, kinds, inframachine.Options{
		Options: m.shared(metrics), Calls: m.process.cloudCalls(), Poll: pollEvery,
		Input: func(context.Context, *contract.ProvidedMachineState) (cloud.Request, error) {
			return cloud.Request{Spec: []byte(`{"size":"small"}`)}, nil
		},
	})
	return errors.Join(unknown, err, m.process.metrics.Register(metrics))
}
