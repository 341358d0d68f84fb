package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

const deploymentResource = "machinedeployments"

// deploymentKinds are the kinds that deployments use.
func deploymentKinds(group api.Group) deployment.Kinds {
	sets := group.MachineSet()
	_, set, deployments := group.Layouts()
	return deployment.Kinds{
		Deployment: group.MachineDeployment(), Set: sets, Machine: group.Machine(), // one shared informer
		Maker: contract.UnstructuredSetMaker(deployments, sets.GVK, set), AllRevisions: group == api.Gardener,
	}
}

// deploymentWiring is the configuration for deployments, which determines the rights.
func deploymentWiring(o settings) deployment.Wiring {
	return deployment.Wiring{
		Kinds: deploymentKinds(o.Kinds.Group), Templates: setWiring(o).Templates, Clusters: o.followsClusters(), Events: true,
		OwnerReferencesEnforced: o.Printing.OwnersEnforced,
	}
}

// addDeployments adds the reconciler of MachineDeployments.
func addDeployments(
	ctx context.Context, mgr ctrl.Manager, o settings, clusters *pass.Clusters, guards safeguards,
) error {
	shared, err := passOptionsOf(mgr, o, "MachineDeployment")
	if err != nil {
		return err
	}
	ports := deployment.PortsFromManager(mgr)
	follow(&ports.Ports, clusters)
	steps := guarded(o, guards, deployment.Steps(), deployment.StepPaused, deployment.StepTemplates)
	if o.Safety.FreezePeriod > 0 {
		steps = steps.InsertAfter(deployment.StepSets, deployment.FreezeStep())
	}
	r, err := deployment.New(deploymentKinds(o.Kinds.Group), ports, deployment.Options{
		Options: shared, Steps: steps, Shared: o.shared(),
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// needsDeployments returns an error if a CRD for MachineDeployments, or for their MachineSets, is missing.
func (o settings) needsDeployments(served bool) error {
	if o.Kinds.MachineDeployments && !served {
		return o.notServed("--machinedeployments", deploymentResource+" and "+setResource)
	}
	return nil
}
