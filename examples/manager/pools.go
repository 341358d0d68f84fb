package main

import (
	"cmp"
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machinepool"
)

// poolResource is the resource of --machinepools.
const poolResource = "machinepools"

// groupOfPools returns the group of MachinePools.
func (o options) groupOfPools() api.Group { return cmp.Or(o.poolGroup, o.group) }

// poolKinds returns the kinds that pools use.
func poolKinds(o options) machinepool.Kinds {
	kinds, _ := machinepool.ClusterAPI(contract.V1Beta2)                          // it fails for an unknown version only
	kinds.Pool, kinds.Machine = o.groupOfPools().MachinePool(), o.group.Machine() // one shared informer of Machines
	newMachine := kinds.NewMachine
	kinds.NewMachine = func(s machinepool.Seed) (contract.Object, error) {
		made, err := newMachine(s)
		if err == nil {
			made.GetObjectKind().SetGroupVersionKind(kinds.Machine.GVK)
		}
		return made, err
	}
	return kinds
}

// needsPools returns an error if a CRD for pools is missing.
func (o options) needsPools(has served) error {
	if o.machinePools && !has.lists(o.groupOfPools().GroupVersion().WithResource(poolResource).GroupResource()) {
		o.group = o.groupOfPools()
		return o.notServed("--machinepools", poolResource)
	}
	return nil
}

// addPools adds the reconciler of MachinePools, with the Nodes, drains and Clusters of the Machine reconciler. Machines
// of single instances of a pool are reconciled like other Machines.
func addPools(ctx context.Context, mgr ctrl.Manager, o options, ports machine.Ports, options machine.Options) error {
	counted, err := newPassMetrics("MachinePool")
	if err != nil {
		return err
	}
	r, err := machinepool.New(poolKinds(o), poolPorts(ports), machinepool.Options{
		StatusDelay: options.StatusDelay, Controller: options.Controller, WatchFilter: options.WatchFilter, Recorder: options.Recorder,
		ConnectionGrace: options.ConnectionGrace, Matching: options.Matching, Metrics: counted,
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// poolPorts are the Ports of Machines that pools need.
func poolPorts(ports machine.Ports) machinepool.Ports {
	return machinepool.Ports{
		Ports:    ports.Ports,
		Workload: ports.Workload, NodesOf: ports.NodesOf, WorkloadEvents: ports.WorkloadEvents,
	}
}
