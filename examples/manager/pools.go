package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machinepool"
)

// poolResource is looked for, and looked after with --machinepools.
const poolResource = "machinepools"

// addPools has MachinePools looked after too, with the Nodes, drains and Clusters that Machines have. Machines that stand for single
// instances of a pool are then led like any others.
func addPools(ctx context.Context, mgr ctrl.Manager, ports machine.Ports, options machine.Options) error {
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	if err != nil {
		return err
	}
	kinds.Machine = api.Kind() // one informer for both
	r, err := machinepool.New(kinds, poolPorts(ports), machinepool.Options{
		StatusDelay: options.StatusDelay, Controller: options.Controller, WatchFilter: options.WatchFilter, Recorder: options.Recorder,
		Matching: options.Matching,
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// poolPorts are those of Machines, as far as pools need them.
func poolPorts(ports machine.Ports) machinepool.Ports {
	workload := func(w machine.Workload) machinepool.Workload {
		return machinepool.Workload{Nodes: w.Nodes, Client: w.Client, Drainer: w.Drainer}
	}
	pools := machinepool.Ports{
		Client: ports.Client, Cache: ports.Cache, APIReader: ports.APIReader, ClusterOf: ports.ClusterOf, ClusterEvents: ports.ClusterEvents,
		Workload: workload(machine.Workload{Nodes: ports.Nodes, Client: ports.NodeClient, Drainer: ports.Drainer}),
	}
	if of := ports.NodesOf; of != nil {
		pools.WorkloadEvents = ports.WorkloadEvents
		pools.NodesOf = func(key types.NamespacedName) (machinepool.Workload, error) {
			w, err := of(key)
			return workload(w), err
		}
	}
	return pools
}
