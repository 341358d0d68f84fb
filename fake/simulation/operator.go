package simulation

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// Operator is the program that each manager of a World runs, and what it is asked for.
type Operator struct {
	// Kinds are those of the operator: the API server serves them, and managers cache them.
	Kinds []fake.ServedKind
	// Objects are created at the beginning, and deleted at the end. Objects made by reconcilers must go with them.
	Objects []client.Object
	// SetUp makes the reconcilers of one manager, as a main function does, and registers their indexes. It is called again when the manager
	// has crashed. Reconcilers must not start goroutines or use another clock.
	SetUp func(context.Context, Manager) ([]Reconciler, error)
	// Missing says what is not as desired, empty when all is. It is called when no reconciliation is due and the faults have stopped. Nil:
	// nothing is ever missing. After UserRestores an instance may be gone that a restored object had; the operator, or Missing, allows for it.
	Missing func(*World) string
}

// Manager is what a manager gives its reconcilers.
type Manager struct {
	// Ports are the client, the cache and the live reader. The cache lags, and requests go wrong.
	Ports pass.Ports
	// Clock is that of the manager, which may be wrong.
	Clock clock.PassiveClock
	// Workload is the access to the Nodes, with a drainer in histories with Pods.
	Workload machine.Workload
	// Registry takes the metrics of the reconcilers. Report.Seen has the results of their steps.
	Registry prometheus.Registerer
	// Calls are those to the cloud, which go wrong too. An instance that runs gets a Node with its provider ID.
	Calls cloud.Calls
}

// Reconciler reconciles the objects of a kind.
type Reconciler struct {
	// Kind is one of Operator.Kinds.
	Kind string
	// Reconcile is called for each object of the kind, whenever a cache that the manager has shows a change of anything.
	Reconcile func(context.Context, reconcile.Request) (reconcile.Result, error)
}

// library returns the operator of the library's own reconcilers for the kinds of Cluster API.
func library() *Operator {
	o := &Operator{SetUp: setUpLibrary}
	for _, kind := range []string{"Machine", "MachineSet", "MachineDeployment"} {
		o.Kinds = append(o.Kinds, fake.ServedKind{GVK: kindOf(kind), Status: true})
	}
	return o
}

func setUpLibrary(ctx context.Context, m Manager) ([]Reconciler, error) {
	steps, err := MachineSteps(m)
	if err != nil {
		return nil, err
	}
	metrics, ofSets, ofDeployments := machine.NewMetrics(machine.MetricsOptions{}), metricsOf("MachineSet"), metricsOf("MachineDeployment")
	if err := registered(m, metrics, ofSets, ofDeployments); err != nil {
		return nil, err
	}
	rollouts, err := machine.RolloutFromCache(m.Ports.Cache, contract.Unstructured(kindOf("MachineSet"), contract.MachineSetV1Beta2()),
		contract.Unstructured(kindOf("MachineDeployment"), contract.MachineDeploymentV1Beta2()))
	if err != nil {
		return nil, err
	}
	machines, err := machine.New(contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2()),
		machine.Ports{Ports: m.Ports, Workload: m.Workload, RolloutOf: rollouts.Of}, machine.Options{Steps: steps, Clock: m.Clock, Metrics: metrics})
	if err != nil {
		return nil, err
	}
	kinds, err := machineset.ClusterAPI(contract.V1Beta2)
	if err != nil {
		return nil, err
	}
	sets, err := machineset.New(kinds, machineset.Ports{Ports: m.Ports}, machineset.Options{Clock: m.Clock, Parallel: 1, Metrics: ofSets})
	if err != nil {
		return nil, err
	}
	trio, err := deployment.ClusterAPI(contract.V1Beta2)
	if err != nil {
		return nil, err
	}
	deployments, err := deployment.New(trio, deployment.Ports{Ports: m.Ports}, deployment.Options{Clock: m.Clock, Metrics: ofDeployments})
	if err != nil {
		return nil, err
	}
	return []Reconciler{
		{"Machine", machines.Reconcile}, {"MachineSet", sets.Reconcile}, {"MachineDeployment", deployments.Reconcile},
	}, errors.Join(machines.IndexMachines(ctx), sets.IndexMachines(ctx), deployments.Index(ctx))
}

func metricsOf(kind string) *pass.Metrics { return pass.NewMetrics(pass.MetricsOptions{Kind: kind}) }

func registered(m Manager, all ...prometheus.Collector) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, m.Registry.Register(one))
	}
	return errors.Join(errs...)
}

// MachineSteps returns the steps of Machines whose instances the cloud of a World makes, without bootstrap data.
func MachineSteps(m Manager) ([]machine.Step, error) {
	steps, err := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: m.Calls, Poll: pollEvery,
		RequestOf: func(context.Context, *contract.MachineState) (cloud.Request, error) {
			return cloud.Request{Spec: []byte(`{"size":"small"}`)}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return pass.Remove(steps, machine.StepBootstrap)
}
