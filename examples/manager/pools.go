package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machinepool"
)

const (
	// poolResource is the resource of --machinepools.
	poolResource = "machinepools"
	// clusterAPIGroup is the group of all kinds, and of pools unless --machinepool-group differs.
	clusterAPIGroup = "cluster.x-k8s.io"
)

// poolKinds returns the kinds that pools use.
func poolKinds(o options) (machinepool.Kinds, error) {
	kinds, err := machinepool.ClusterAPI(contract.V1Beta2)
	if o.poolGroup == api.PoolGroup {
		kinds.Pool = api.PoolKind()
	}
	kinds.Machine = api.Kind() // one shared informer
	return kinds, err
}

// needsPools returns an error if a CRD for pools is missing.
func (o options) needsPools(cfg *rest.Config, has served) error {
	if !o.machinePools {
		return nil
	}
	if o.poolGroup != api.PoolGroup {
		if !has.pools {
			return fmt.Errorf("--machinepools: the API server does not serve %s of %s: install Cluster API's CRDs", poolResource,
				machineGVK().GroupVersion())
		}
		return nil
	}
	version := api.PoolKind().GVK.GroupVersion()
	list, err := resourcesOf(cfg, version)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !lists(list, poolResource) {
		return fmt.Errorf("--machinepool-group: the API server does not serve %s of %s: install what --print-crds prints", poolResource, version)
	}
	return nil
}

// addPools adds the reconciler of MachinePools, with the Nodes, drains and Clusters of the Machine reconciler. Machines
// of single instances of a pool are reconciled like other Machines.
func addPools(ctx context.Context, mgr ctrl.Manager, o options, ports machine.Ports, options machine.Options) error {
	kinds, err := poolKinds(o)
	if err != nil {
		return err
	}
	counted, err := newPassMetrics("MachinePool")
	if err != nil {
		return err
	}
	r, err := machinepool.New(kinds, poolPorts(ports), machinepool.Options{
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
