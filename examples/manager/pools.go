package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machinepool"
)

// poolResource is the resource of --machinepools.
const poolResource = "machinepools"

// poolKinds returns the kinds that pools use.
func poolKinds(o settings) machinepool.Kinds {
	kinds, _ := machinepool.ClusterAPI(contract.V1Beta2)                                      // it fails for an unknown version only
	kinds.Pool, kinds.Machine = o.Kinds.GroupOfPools().MachinePool(), o.Kinds.Group.Machine() // one shared informer of Machines
	newMachine := kinds.NewMachine
	kinds.NewMachine = func(pool *contract.MachinePoolState, seed contract.MachineSeed) (contract.Object, error) {
		made, err := newMachine(pool, seed)
		if err == nil {
			made.GetObjectKind().SetGroupVersionKind(kinds.Machine.GVK)
		}
		return made, err
	}
	return kinds
}

// needsPools returns an error if a CRD for pools is missing.
func (o settings) needsPools(has served) error {
	if o.Kinds.MachinePools && !has.lists(o.Kinds.GroupOfPools().GroupVersion().WithResource(poolResource).GroupResource()) {
		o.Kinds.Group = o.Kinds.GroupOfPools()
		return o.notServed("--machinepools", poolResource)
	}
	return nil
}

// addPools adds the reconciler of MachinePools, with the Nodes, drains and Clusters of the Machine reconciler. Machines
// of single instances of a pool are reconciled like other Machines.
func addPools(ctx context.Context, mgr ctrl.Manager, o settings, ports machine.Ports, options machine.Options) error {
	shared, err := passOptionsOf(mgr, o, "MachinePool")
	if err != nil {
		return err
	}
	r, err := machinepool.New(poolKinds(o), poolPorts(ports), machinepool.Options{
		Options: shared, ConnectionGrace: options.ConnectionGrace, Matching: options.Matching,
		Policy: machinepool.Policy{DrainRules: inOrder(o, drain.DefaultRules())},
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
